#!/usr/bin/env bash
# A rank that is killed or stopped in mid-step: all ranks end within the timeout, one line names the rank and what was
# waited for, exit 5. timeout_seconds: 240
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh

fault() { # plan rank signal: sends it in mid-run, leaves the exit code in $code and the seconds it took in $took
    local log=$scratch/log-$1-$2-$3 waited victim begin
    train "$1" --steps 1000000 --log "$log" >"$scratch/out" 2>"$scratch/err" &
    waited=$!
    started "$log"
    victim=$(rank_process "$2" "$log")
    begin=$SECONDS
    kill "-$3" "$victim"
    wait $waited
    code=$? took=$((SECONDS - begin))
}

for plan in tp2-dp2 mixed; do
    for rank in 0 3; do
        fault $plan $rank KILL
        [ $code -eq 5 ] && [ $took -le $timeout_seconds ] && one_error "rank $rank was ended by signal 9 \(Killed\)"
        verdict "$plan: rank $rank killed" $?
        fault $plan $rank STOP
        # mpirun takes two seconds more to end a process that is stopped.
        [ $code -eq 5 ] && [ $took -le $((timeout_seconds + 3)) ] &&
            one_error "rank $rank has not answered for $timeout_seconds s: rank [0-3] waits in (step|evaluated|agree|reduc)"
        verdict "$plan: rank $rank stopped" $?
    done
done
exit $status
