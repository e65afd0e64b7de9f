#!/usr/bin/env bash
# A plan whose chunks the search has sized: found, verified with its bound, trained, and its losses are those of the plan
# without chunks. timeout_seconds: 120 cores: 1
# test_chunks.sh [BUILD]: the folder that make wrote to (default build).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
. tests/support/mpi_env.sh
build=${1:-build}
for program in galplan galrun; do
    [ -x "$build/$program" ] || { echo "$program was left out of this build"; exit 77; }
done
scratch=$(mktemp -d) || exit 4
trap 'rm -rf "$scratch"' EXIT
failed=0
# Open MPI keeps memory that is not ours to free.
export ASAN_OPTIONS=detect_leaks=0

verdict() { # status name
    if [ "$1" -eq 0 ]; then echo "ok $2"; else echo "not ok $2"; failed=1; fi
}

# Links whose latency is most of a message.
sed 's/"latency_seconds": 2e-06/"latency_seconds": 1e-03/' schemas/catalogue/clusters/host.json >"$scratch/slow.json"
sed 's/"layer_count": 2/"layer_count": 4/' tests/fixtures/valid/model.json >"$scratch/model.json"
search() { # space plan
    "$build/galplan" search --model "$scratch/model.json" --cluster "$scratch/slow.json" --devices 2 --pp 1 --batch 4 \
        --microbatches 2 --space "$1" -q -o "$2" >>"$scratch/said" 2>&1
}
search zero3 "$scratch/matrices.json" && search zero3,chunk "$scratch/chunks.json"
verdict $? 'both searches find a plan'
grep -q '"shard_unit": "chunk"' "$scratch/chunks.json" && grep -q '"chunk_elements"' "$scratch/chunks.json" &&
    ! grep -q shard_unit "$scratch/matrices.json"
verdict $? 'latencies ask for chunks, whose size the plan says'
"$build/galplan" verify "$scratch/chunks.json" >>"$scratch/said" 2>&1
verdict $? 'the plan and its bound are verified'

for plan in matrices chunks; do
    timeout -k 5 60 "$build/galrun" "$scratch/$plan.json" --data README.md --np 2 --steps 3 -q \
        --log "$scratch/$plan.log" >>"$scratch/said" 2>&1
    verdict $? "galrun trains the plan of $plan"
    sed -n 's/.*"step": \([0-9]*\), "loss": \([^,]*\),.*/\1 \2/p' "$scratch/$plan.log" >"$scratch/$plan.losses"
done
# fp32: sums of gradients are of other orders.
paste -d ' ' "$scratch/matrices.losses" "$scratch/chunks.losses" | awk '
    { off = $2 - $4; if ($1 != $3 || off > 1e-5 * $2 || -off > 1e-5 * $2) exit 1 } END { exit NR != 3 }'
verdict $? 'their losses are the same'
[ $failed -eq 0 ] || cat "$scratch/said"
exit $failed
