#!/usr/bin/env bash
# test_binding.sh BUILD: galrun -v says for every rank where it runs; ranks that have cores of their own share none, and a
# binding of mpirun or --bind none is left alone. cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/support/mpi_env.sh
build=$(cd "${1:-build}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
# Open MPI keeps memory that is not ours to free.
export ASAN_OPTIONS=detect_leaks=0

verdict() { # what: by the status of the command before
    if [ $? -eq 0 ]; then echo "ok $1"; else
        cat "$scratch/said"
        echo "not ok $1"
        status=1
    fi
}

plan() { # ranks
    "$build/galplan" search --model tests/fixtures/valid/model.json --cluster titan-8 --devices "$1" --batch 8 --space dp \
        --pp 1 -o "$scratch/plan$1.json" >"$scratch/said" 2>&1
}
train() { # ranks arguments...
    "$build/galrun" "$scratch/plan$1.json" --data README.md --steps 1 -v "${@:2}" >"$scratch/said" 2>&1
}
places() { sed -n 's/^\[rank \([0-9]*\)\] \(not bound\|bound\|bound before the start to\)\b/\1 \2/p' "$scratch/said" | sort; }

plan 2 && plan 8 || exit 1
if [ "$(nproc)" -ge 8 ]; then
    echo 'skip more ranks than cores: 8 cores or more'
else
    train 8 --np 8 && [ "$(places | grep -c 'not bound: .* cores\? for 8 ranks')" -eq 8 ]
    verdict 'more ranks than cores: none is bound, each says so'
fi
train 2 --np 2 --bind none && [ -z "$(places)" ]
verdict '--bind none'
if [ "$(lscpu -p=core | grep -vc '^#')" -lt 2 ] || [ "$(nproc)" -ne "$(nproc --all)" ]; then
    echo 'skip two ranks with cores of their own: needs two cores, all allowed'
    exit $status
fi
train 2 --np 2 && [ "$(places | wc -l)" -eq 2 ] &&
    [ "$(sed -n 's/^\[rank [01]\] bound to processing units \([0-9,-]*\), NUMA node .*/\1/p' "$scratch/said" |
        sort -u | wc -l)" -eq 2 ]
verdict 'two ranks, two different sets of cores'
mpirun -n 2 --bind-to core "$build/galrun" "$scratch/plan2.json" --data README.md --steps 1 -v >"$scratch/said" 2>&1 &&
    [ "$(places | grep -c 'bound before the start to processing units')" -eq 2 ]
verdict 'what mpirun has bound stays as it is'
exit $status
