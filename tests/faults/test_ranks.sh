#!/usr/bin/env bash
# A rank that is killed or stopped in mid-step: all ranks end within the timeout, one line names the rank and what was
# waited for, exit 5. timeout_seconds: 240 cores: 0
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
measure_overhead

fault() { # plan rank signal: sends it in mid-run, leaves the exit code in $code; the clock runs from the signal on
    local log=$scratch/log-$1-$2-$3 waited victim
    train "$1" --steps 1000000 --log "$log" >"$scratch/out" 2>"$scratch/err" &
    waited=$!
    started "$log"
    victim=$(rank_process "$2" "$log")
    begin_clock
    kill "-$3" "$victim"
    wait $waited
    code=$?
    stop_clock
}

for plan in tp2-dp2 mixed; do
    for rank in 0 3; do
        fault $plan $rank KILL
        [ $code -eq 5 ] && in_time && one_error "rank $rank was ended by signal 9 \(Killed\)"
        verdict "$plan: rank $rank killed" $?
        count_as_ending
        fault $plan $rank STOP
        [ $code -eq 5 ] && in_time &&
            one_error "rank $rank has not answered for $timeout_seconds s: rank [0-3] waits in (step|evaluated|agree|reduc|broadcast)"
        verdict "$plan: rank $rank stopped" $?
    done
done
exit $status
