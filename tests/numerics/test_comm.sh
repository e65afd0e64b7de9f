#!/bin/sh
# The MPI communicator on 1, 2, 3, 4 and 8 ranks, its abort, and the two counting layers of tests/support on it.
# test_comm.sh [BUILD]: the folder that make wrote to (default build).
# Prints "ok NAME", "not ok NAME" or "skip NAME: reason" per case; exit 1 if one fails. timeout_seconds: 300 cores: 1
set -u
cd "$(dirname "$0")/../.." || exit 4
tests=${1:-build}/tests
program=$tests/numerics/comm_world
counted=$tests/numerics/comm_counted
scratch=$(mktemp -d) || exit 4
# Open MPI keeps allocations until the process ends; they are not ours to free.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0}"
trap 'rm -rf "$scratch"' EXIT
failed=0

# ranks COUNT ARGUMENT...: mpirun, with its own options first among the arguments.
ranks() {
    count=$1
    shift
    timeout -k 5 120 mpirun --allow-run-as-root --oversubscribe --mca btl_vader_single_copy_mechanism none \
        -np "$count" "$@"
}

# verdict NAME STATUS
verdict() {
    if [ "$2" -eq 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1"
        failed=1
    fi
}

for count in 1 2 3 4 8; do
    ranks "$count" "$program" >"$scratch/out" 2>"$scratch/err"
    status=$?
    cat "$scratch/out"
    if [ "$status" -ne 0 ]; then
        cat "$scratch/err" >&2
        verdict "comm_world ends with 0 ($count ranks; got $status)" 1
    fi
done

ranks 3 "$program" abort >"$scratch/out" 2>&1
[ $? -eq 5 ]
verdict "abort of one rank ends all with its code" $?

if grep -q '__[at]san_init' "$counted"; then
    echo "skip counting layers: a sanitizer brings its own allocator and must be loaded first"
    exit $failed
fi

ranks 4 -x LD_PRELOAD="$tests/libpmpi_count.so" -x GALPLAN_COUNT_FILE="$scratch/count" "$counted"
verdict "requests run under the MPI counting layer" $?
# 3 x 10 fp32; 2 x 5 fp32; 6 fp64; 4 fp32; a transfer of 8 fp64 from rank 0 to rank 1; nothing of the barrier. The
# second number is of the calls in place.
cat >"$scratch/expected" <<'END'
step MPI_Iallreduce 4 3 3 120
step MPI_Ireduce_scatter_block 4 2 1 40
step MPI_Iallgather 4 1 1 48
step MPI_Ialltoall 4 1 0 16
END
for rank in 0 1 2 3; do
    cp "$scratch/expected" "$scratch/expected.$rank"
done
echo "step MPI_Isend 2 1 0 64" >>"$scratch/expected.0"
echo "step MPI_Irecv 2 1 0 64" >>"$scratch/expected.1"
# Two communicators: of all ranks for control, and the channel's.
for rank in 0 1 2 3; do
    [ "$(grep MPI_Comm_ "$scratch/count.$rank")" = 'none MPI_Comm_create_group 4 2 0 0' ]
    verdict "communicators are made once, before the first request, on rank $rank" $?
done
for rank in 0 1 2 3; do
    grep '^step ' "$scratch/count.$rank" | diff "$scratch/expected.$rank" - >&2
    verdict "MPI calls counted on rank $rank" $?
done

ranks 2 -x LD_PRELOAD="$tests/liballoc_count.so" -x GALPLAN_ALLOC_FILE="$scratch/alloc" "$counted"
verdict "requests run under the allocation counting layer" $?
cat >"$scratch/expected" <<'END'
allocate malloc 1 100
allocate free 1 0
allocate total 2 100
step total 0 0
END
processes=0
for file in "$scratch"/alloc.*; do
    grep -E '^(allocate|step) ' "$file" | diff "$scratch/expected" - >&2
    verdict "own allocations are counted, and requests make none (process $processes)" $?
    processes=$((processes + 1))
done
[ "$processes" -eq 2 ]
verdict "each rank wrote its allocation counts" $?
exit $failed
