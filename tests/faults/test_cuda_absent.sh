#!/usr/bin/env bash
# galrun and galplan-profile --device cuda on a machine without a GPU or its driver, and in a build without CUDA: one line says what is
# missing, and the code is 5. test_cuda_absent.sh [BUILD]: the folder that make wrote to (default build). cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
. tests/support/mpi_env.sh
build=${1:-build}
scratch=$(mktemp -d) || exit 4
trap 'rm -rf "$scratch"' EXIT
[ -x "$build/galrun" ] || { echo 'galrun was left out of this build'; exit 77; }
failed=0

# verdict NAME: by the status of the command before.
verdict() {
    if [ $? -eq 0 ]; then echo "ok $1"; else echo "not ok $1" && cat "$scratch/err" && failed=1; fi
}

# says CODE TEXT ARGUMENT...: galrun ends with the code, one line on stderr that holds the text, and nothing else.
says() {
    local code=$1 text=$2
    shift 2
    "$build/galrun" "$@" --data README.md >"$scratch/out" 2>"$scratch/err"
    [ $? -eq "$code" ] && [ ! -s "$scratch/out" ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] &&
        grep -q "^galrun: error: .*$text" "$scratch/err"
}

one=tests/numerics/plans/serial.json two=tests/numerics/plans/serial-tied-pp2.json
says 2 '--comm nccl needs --device cuda' $one --comm nccl
verdict 'NCCL needs a GPU'
says 2 '--graphs needs --device cuda' $one --graphs
verdict 'graphs need a GPU'
says 2 '--tf32 needs --device cuda' $one --tf32
verdict 'rounded factors need a GPU'
says 2 "--tf32 is for products of fp32: the plan's model computes in fp64" $one --device cuda --tf32
verdict 'rounded factors are of fp32'
says 2 '--graphs needs NCCL where ranks communicate' $two --np 2 --device cuda --comm mpi --graphs
verdict 'graphs need NCCL'
says 2 '--trace takes the times of single kernels' $one --device cuda --graphs --trace /dev/null
verdict 'graphs have no times of kernels'

if [ -e /dev/nvidiactl ]; then
    echo 'skip no GPU: there is one'
    exit $failed
fi
# A build without CUDA says that, one with it what the machine lacks.
profiles() { # ARGUMENT...: galplan-profile ends with 5, one line that says what is missing, and no file
    "$build/galplan-profile" --model tests/fixtures/valid/model.json --device cuda -o "$scratch/profile.json" "$@" \
        >"$scratch/out" 2>"$scratch/err"
    [ $? -eq 5 ] && [ ! -s "$scratch/out" ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] &&
        grep -q "^galplan: error: .*\($missing\)" "$scratch/err" && [ ! -e "$scratch/profile.json" ]
}

missing='no CUDA driver (libcuda.so.1)\|built without CUDA'
says 5 "$missing" $one --device cuda
verdict 'one rank without a GPU'
says 5 "$missing" $two --np 2 --device cuda --comm mpi --deterministic
verdict 'two ranks without a GPU say it once'
mpirun -np 2 "$build/galrun" $two --device cuda --data README.md >"$scratch/out" 2>"$scratch/err"
[ $? -eq 5 ] && [ "$(grep -c 'galrun: error' "$scratch/err")" -eq 1 ] && grep -q "$missing" "$scratch/err"
verdict 'under mpirun too'
if [ -x "$build/galplan-profile" ]; then
    profiles
    verdict 'a profile without a GPU'
    profiles --np 2 --comm mpi
    verdict 'two ranks of a profile say it once'
    "$build/galplan-profile" --model tests/fixtures/valid/model.json --comm nccl -o "$scratch/profile.json" \
        >"$scratch/out" 2>"$scratch/err"
    [ $? -eq 2 ] && grep -q -- '--comm nccl needs --device cuda' "$scratch/err"
    verdict 'a profile by NCCL needs a GPU'
    "$build/galplan-profile" --model tests/fixtures/valid/model.json --tf32 -o "$scratch/profile.json" \
        >"$scratch/out" 2>"$scratch/err"
    [ $? -eq 2 ] && grep -q -- '--tf32 is for products of fp32 and needs --device cuda' "$scratch/err"
    verdict 'a profile with rounded factors needs a GPU'
fi
exit $failed
