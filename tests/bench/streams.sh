#!/usr/bin/env bash
# make bench-streams: what overlap of communication with computation gains on this machine, and what of each stream's
# communication a step still waits for.
#
# Plans of one model and batch, a rank per core: data parallel (gradients all-reduced), ZeRO-2, ZeRO-3 with prefetch
# into two buffers and into one, and tensor parallel, in which nearly every collective is waited for at once unless two
# sub-batches take turns: without recompute, and with it under each kind of overlap. Each runs
# with overlap and with --no-overlap, a process each, in turn; every figure is the median over RUNS runs of the mean
# over ranks and STEPS steps (one more before them warms up), the ratio that of the pairs. The terms are those of
# runtime/train/exposure.h. A share is of the seconds in flight, which overlap makes longer: compare the waiting.
# Usage: tests/bench/streams.sh [BUILD]; RUNS (7), STEPS (4), ONLY=pattern of plans by environment.
set -eu
shopt -s inherit_errexit
build=${1:-build}
runs=${RUNS:-7} steps=${STEPS:-4} only=${ONLY:-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ranks=1
while [ $((2 * ranks)) -le "$(nproc)" ] && [ "$ranks" -lt 8 ]; do
    ranks=$((2 * ranks))
done
if [ "$ranks" -eq 1 ]; then
    echo 'skipped: one core has nothing to overlap with'
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
find "$root/schemas" "$root/runtime" -name '*.[ch]' -print | LC_ALL=C sort | xargs cat >"$folder/text"

# 4 layers of hidden 512, fp32, 2 samples of 128 tokens on every rank: 50 MB of gradients against a step of some 0.3 s.
write_plan() { # name axis zero_stage prefetch_depth [recompute [overlap]]
    local overlap=${6:+, \"overlap\": \"$6\"}
    sed -e 's/"layer_count": [0-9]*/"layer_count": 4/' -e 's/"hidden": [0-9]*/"hidden": 512/' \
        -e 's/"head_count": [0-9]*/"head_count": 8/' -e 's/"ffn_hidden": [0-9]*/"ffn_hidden": 2048/' \
        -e 's/"sequence_length": [0-9]*/"sequence_length": 128/' -e 's/_dropout": [0-9.]*/_dropout": 0/' \
        -e 's/"compute_dtype": "[a-z0-9]*"/"compute_dtype": "fp32"/' \
        -e "s/\"device_count\": 1/\"device_count\": $ranks/" -e "s/\"span_devices\": 1/\"span_devices\": $ranks/" \
        -e "s/\"global_batch_samples\": [0-9]*/\"global_batch_samples\": $((2 * ranks))/" \
        -e 's/"microbatch_count": [0-9]*/"microbatch_count": 1/' \
        -e "s/\"prefetch_depth\": [0-9]*/\"prefetch_depth\": $4/" \
        -e 's/"block_count": 6/"block_count": 10/' -e "s/\"zero_stage\": 0/\"zero_stage\": $3/" \
        -e "s/\"axes\": \[\]/\"axes\": [{\"kind\": \"$2\", \"degree\": $ranks}]/" \
        -e "s/\"recompute\": \"none\"/\"recompute\": \"${5:-none}\"$overlap/" \
        "$root/tests/numerics/plans/serial.json" >"$folder/$1.json"
    plans+=("$1")
}
plans=()
write_plan dp dp 0 2
write_plan zero2 sdp 2 2
write_plan zero3-prefetch2 sdp 3 2
write_plan zero3-prefetch1 sdp 3 1
write_plan tp tp 0 2
write_plan tp-inpass tp 0 2 none in_pass
write_plan tp-recompute tp 0 2 full
write_plan tp-recompute-inpass tp 0 2 full in_pass
write_plan tp-recompute-crosspass tp 0 2 full cross_pass
write_plan tp-recompute-fine tp 0 2 full fine

middle() { # of the numbers on stdin, one per line; of an even count the lower one
    sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

number() { # record key: 0 if the record does not have it
    local value
    value=$(printf '%s\n' "$1" | sed -n "s/.*\"$2\": \([0-9.e+-]*\).*/\1/p")
    printf '%s ' "${value:-0}"
}

# Appends a line: seconds per step, compute, waiting, serving; in flight and exposed of tensor, gather, reduce;
# communicators, their seconds.
run() { # plan option...
    local plan=$1 record stream
    shift
    "$build/galrun" "$folder/$plan.json" --np "$ranks" --data "$folder/text" --steps $((steps + 1)) \
        --evaluate-batches 1 -q --log "$folder/log" "$@" >"$folder/out"
    record=$(tail -n 1 "$folder/log")
    {
        for key in seconds_per_step compute_seconds waiting_seconds serving_seconds; do
            number "$record" $key
        done
        for stream in tensor gather reduce; do
            part=$(printf '%s\n' "$record" | sed -n "s/.*\"$stream\": {\([^}]*\)}.*/\1/p")
            number "$part" in_flight_seconds
            number "$part" exposed_seconds
        done
        number "$record" communicators
        number "$record" communicator_seconds
        echo
    } >>"$folder/$plan$*.lines"
}

column() { cut -d' ' -f"$2" "$folder/$1.lines" | middle; }

print_row() { # label file
    local c
    printf '%-27s' "$1"
    for c in 1 2 3 4; do
        printf ' %8.1f' "$(awk -v s="$(column "$2" $c)" 'BEGIN { print 1e3 * s }')"
    done
    for c in 5 7 9; do
        awk -v f="$(column "$2" $c)" -v e="$(column "$2" $((c + 1)))" 'BEGIN {
            if (f > 0) { printf " %8.1f %6.1f %%", 1e3 * f, 100 * e / f } else { printf " %8s %8s", "-", "-" } }'
    done
    echo
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
echo "$(mpirun --version | head -n 1), $ranks ranks; $runs pairs of runs, $steps timed steps a run"
for plan in "${plans[@]}"; do
    [ -z "$only" ] || [[ $plan == $only ]] || continue
    for _ in $(seq "$runs"); do
        run "$plan"
        run "$plan" --no-overlap
    done
done
echo '                              ms of a step                              ms in flight, of it exposed'
echo 'plan                         step  compute  waiting  serving     tensor             gather             reduce'
for plan in "${plans[@]}"; do
    [ -f "$folder/$plan.lines" ] || continue
    print_row "$plan" "$plan"
    print_row "$plan, no overlap" "$plan--no-overlap"
    paste -d' ' "$folder/$plan.lines" "$folder/$plan--no-overlap.lines" | awk '{ print $13 / $1 }' | sort -g | awk '
        { ratio[NR] = $1 } END {
        printf "  without overlap a step takes %.3f times as long (median of pairs; middle half %.3f to %.3f)\n",
            ratio[int((NR + 1) / 2)], ratio[int((NR + 3) / 4)], ratio[NR + 1 - int((NR + 3) / 4)] }'
    awk -v w="$(column "$plan" 3)" -v s="$(column "$plan" 4)" -v n="$(column "$plan--no-overlap" 3)" 'BEGIN {
        printf "  of %.1f ms that a step waits without overlap, with it %.1f ms of waiting remain and %.1f ms of serving\n",
            1e3 * n, 1e3 * w, 1e3 * s }'
    printf '  %d communicators per rank, made once in %.2f ms\n' "$(column "$plan" 11)" \
        "$(awk -v s="$(column "$plan" 12)" 'BEGIN { print 1e3 * s }')"
done
