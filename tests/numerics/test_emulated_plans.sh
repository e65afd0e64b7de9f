#!/usr/bin/env bash
# Whole plans with the CUDA kernels on emulated threads, in fp32, against one rank in fp64: see equivalence_emulated.c.
# Of the random plans three: with tensor parallelism, a zig-zag ring, dropout and moments on storage; with rings in order
# and zig-zag of two and four, and a grid; with Ulysses, ZeRO, a grid and moments on storage. More take half a minute
# each. test_emulated_plans.sh [BUILD]: the folder that make wrote to (default build).
# timeout_seconds: 600
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
# Open MPI keeps allocations until the process ends; they are not ours to free.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" MPIRUN_TIMEOUT=280
program=${1:-build}/tests/numerics/equivalence_emulated
if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi
out=$(mktemp) || exit 4
trap 'rm -f "$out"' EXIT
failed=0

# plan SEED PATTERN NAME: the plan of the seed over 4 ranks, whose line holds the pattern.
plan() {
    bash tests/support/mpirun.sh 4 "$program" 1 "$1" 4 1 emulated storage >"$out" 2>&1
    if [ $? -eq 0 ] && grep -q "^plan seed $1 .*$2" "$out"; then
        echo "ok $3"
    else
        grep -E '^(plan|FAILED|not ok|rank )|error' "$out"
        echo "not ok $3"
        failed=1
    fi
}

plan 14 'dropout: .*tp2-zigzag2[^ ]*-off100s100' 'tensor parallelism, a zig-zag ring, dropout and moments on storage'
if grep -q '__asan_init' "$program"; then
    echo 'skip rings, Ulysses and grids: under a sanitizer they take minutes'
    exit $failed
fi
plan 102 ' ring2.*zigzag2.*zigzag4' 'rings in order and zig-zag, of two and four'
plan 23 'ulysses4\.z2.*tp4\.2d[^ ]*-off100s100' 'Ulysses, ZeRO, a grid and moments on storage'
exit $failed
