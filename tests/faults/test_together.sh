#!/usr/bin/env bash
# Several ranks fail at the same moment, each alone, while the others wait for them: one line of one of them, its exit
# code, within the timeout, also when one of them is late. timeout_seconds: 120 cores: 0
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
interposer=$(preloaded libjoin_count.so)
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
[ -f "$interposer" ] || { echo 'no MPI: the interposer is not built'; exit 77; }
measure_overhead

# Two stages of two ranks each, by tensor parallelism: the ranks of the last read the same targets and nobody else does.
sed 's/"kind": "sdp"/"kind": "tp"/; s/"zero_stage": 3/"zero_stage": 0/' $plans/zero3-pp2.json >"$scratch/tp2-pp2.json"

# One global batch of 8 samples with 16 tokens each, and the last target, which each step reads: it goes in mid-run.
lose_target() { # plan launcher...
    local plan=$1 log=$scratch/log waited
    shift
    rm -f "$log"
    head -c 129 "$data" >"$scratch/shrinking"
    timeout -k 5 100 "$@" "$plan" --timeout $timeout_seconds -q --data "$scratch/shrinking" --validation "$data" \
        --evaluate-batches 1 --steps 1000000 --log "$log" >"$scratch/out" 2>"$scratch/err" &
    waited=$!
    started "$log"
    truncate -s 128 "$scratch/shrinking"
    begin_clock
    wait $waited
    code=$?
    stop_clock
}

one_line() { # ranks
    [ "$code" -eq 4 ] && in_time &&
        one_error "rank $1: .*/shrinking: the file had 129 bytes when it was opened, byte 128 is gone"
}

# By the order of samples it is the first or the last two that read them.
lose_target $plans/mixed.json "$galrun" --np 4
one_line '[02]'
verdict 'two ranks of four' $?
lose_target "$scratch/tp2-pp2.json" "$galrun" --np 4
one_line 2
verdict 'both ranks of the last stage' $?
lose_target "$scratch/tp2-pp2.json" mpirun -q -np 4 "$galrun"
one_line 2
verdict 'both ranks of the last stage, under mpirun' $?

# Rank 3 has not heard rank 2, has waited for it long enough and speaks; then rank 2 has heard all.
export GALPLAN_FAULT_CALL=MPI_Isend GALPLAN_FAULT_AT=1 GALPLAN_FAULT_KIND=late GALPLAN_FAULT_RANK=2
LD_PRELOAD=$interposer lose_target "$scratch/tp2-pp2.json" "$galrun" --np 4
one_line 3
verdict 'both ranks of the last stage, one of them late' $?
exit $status
