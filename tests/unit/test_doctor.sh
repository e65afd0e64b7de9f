#!/usr/bin/env bash
# test_doctor.sh BUILD: galplan doctor reports every finding with either its text or where it was looked for, draws what
# is allowed from that, and plans wherever it is.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/support/mpi_env.sh
build=$(cd "${1:-build}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
# The libraries that are opened keep memory that is not ours to free.
export ASAN_OPTIONS=detect_leaks=0

verdict() { # what: by the status of the command before
    if [ $? -eq 0 ]; then echo "ok $1"; else
        echo "not ok $1"
        status=1
    fi
}

"$build/galplan" doctor >"$scratch/text"
verdict 'exit 0 where planning works'
names='galrun galplan-profile mpirun srun MPI BLAS hwloc processor memory memory_limit CUDA_driver GPU CUDA_runtime cuDNN NCCL
InfiniBand network'
missing=''
for name in $names; do
    grep -Eq "^  ${name/_/ } +[^ ]" "$scratch/text" || missing="$missing $name"
done
[ -z "$missing" ] || echo "missing:$missing"
[ -z "$missing" ]
verdict 'every finding has a line'
! grep 'not found' "$scratch/text" | grep -v 'not found; looked for [^ ]'
verdict 'what is not found says where it was looked for'

# This machine runs the tests: MPI, BLAS and hwloc are there, and are what the programs were built with.
grep -Eq '^  MPI +Open MPI v[0-9]' "$scratch/text" && grep -Eq '^  BLAS +OpenBLAS [0-9]' "$scratch/text" &&
    grep -Eq '^  hwloc +API 2\.' "$scratch/text"
verdict 'MPI, BLAS and hwloc are found with their versions'
[ "$(sed -n 's/.*; \([0-9]*\) of [0-9]* processing units allowed.*/\1/p' "$scratch/text")" = "$(nproc)" ]
verdict 'processing units as nproc counts them'
taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "$build/galplan" doctor | grep -q ' up to 1 with a core each'
verdict 'a narrower binding allows fewer ranks'
for name in plan measure train 'many machines'; do
    grep -Eq "^  $name +yes  gal|^  $name +yes  (mpirun|srun) " "$scratch/text" || break
done
verdict 'all four are allowed here'

# galplan alone, nothing on PATH.
cp "$build/galplan" "$scratch"
(cd / && PATH=/nonexistent "$scratch/galplan" doctor >"$scratch/alone")
verdict 'exit 0 for galplan alone'
grep -Eq '^  plan +yes  ' "$scratch/alone" && grep -Eq '^  measure +no   missing: galplan-profile, mpirun$' "$scratch/alone" &&
    grep -Eq '^  train +no   missing: galrun, mpirun$' "$scratch/alone" &&
    grep -Eq '^  many machines +no   missing: galrun$' "$scratch/alone"
verdict 'what is missing is named'

"$build/galplan" doctor --json >"$scratch/json"
[ "$(grep -c '"looked_for"' "$scratch/json")" -eq 17 ] && [ "$(grep -c '"possible": true' "$scratch/json")" -eq 4 ] &&
    [ "$(sed -n 's/.*"core_count": \([0-9]*\).*/\1/p' "$scratch/json")" = "$(nproc)" ]
verdict 'the same as JSON'
exit $status
