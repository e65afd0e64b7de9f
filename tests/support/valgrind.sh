#!/usr/bin/env bash
# valgrind.sh BUILD: a tiny model from search to a resumed training run on 2 ranks, every program under memcheck. No
# invalid access, no use of what was not written, no definite leak; what Open MPI, OpenBLAS and hwloc do is left out
# (openmpi-valgrind.supp and valgrind.supp). Prints a line per command; exit 1 if one fails, 77 without valgrind.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
build=$1
command -v valgrind >/dev/null || { echo 'valgrind is not installed'; exit 77; }
export OPENBLAS_CORETYPE=Haswell # valgrind knows no AVX-512
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fixtures=tests/fixtures/valid
memcheck=(valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite
    --show-leak-kinds=definite --suppressions=tests/support/valgrind.supp)
[ -f /usr/share/openmpi/openmpi-valgrind.supp ] && memcheck+=(--suppressions=/usr/share/openmpi/openmpi-valgrind.supp)
seq 1 3000 >"$scratch/data"
status=0

clean() { # expected status, command...
    local expected=$1 got
    shift
    "$@" >"$scratch/out" 2>"$scratch/err"
    got=$?
    if [ $got -eq "$expected" ] && ! grep -q '^==[0-9]*==' "$scratch/err"; then
        echo "ok $*" | sed "s|ok .* $build/|ok |"
    else
        echo "not ok $* (exit $got)"
        tail -n 40 "$scratch/err"
        status=1
    fi
}

galplan=("${memcheck[@]}" "$build/galplan")
galrun=("${memcheck[@]}" "$build/galrun")
clean 0 "${galplan[@]}" check $fixtures/model.json $fixtures/cluster.json $fixtures/profile.json $fixtures/plan.json
clean 3 "${galplan[@]}" check --json tests/fixtures/invalid/plan_tp_heads.json tests/fixtures/invalid/json_too_deep.json
clean 0 "${galplan[@]}" search --model $fixtures/model.json --cluster $fixtures/cluster_eight_devices.json --devices 2 \
    --batch 4 --output "$scratch/plan.json"
for command in check verify lower; do
    clean 0 "${galplan[@]}" $command "$scratch/plan.json"
done
clean 0 "${galplan[@]}" simulate "$scratch/plan.json"
clean 2 "${galrun[@]}" "$scratch/plan.json" --stepz 3
clean 0 "${galrun[@]}" tests/numerics/plans/serial.json --data "$scratch/data" --steps 2 -q --save "$scratch/one"
ranks() {
    clean 0 bash tests/support/mpirun.sh 2 "${galrun[@]}" "$scratch/plan.json" --data "$scratch/data" -q \
        --timeout 120 --evaluate-batches 1 "$@"
}
ranks --steps 2 --save "$scratch/two"
ranks --steps 3 --save "$scratch/two" --resume latest
exit $status
