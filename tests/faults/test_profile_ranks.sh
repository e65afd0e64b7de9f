#!/usr/bin/env bash
# A rank of galplan profile that is killed or stopped at several moments of measuring: all ranks end within --timeout, one
# line names the rank, exit 5, and no profile is written. timeout_seconds: 180
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
program=${BUILD:-build}/galplan-profile
[ -x "$program" ] || { echo 'galplan-profile was left out of this build'; exit 77; }
measure_overhead

profile() { # file
    timeout -k 5 100 "$program" --model tests/fixtures/valid/model.json --np 2 --batch 4 --microbatches 2 --memory 1GiB \
        --budget-seconds 60 --timeout "$timeout_seconds" -q -o "$1"
}

fault() { # rank signal seconds: from the start of the rank
    local file=$scratch/$1-$2-$3.json waited victim=''
    profile "$file" >"$scratch/out" 2>"$scratch/err" &
    waited=$!
    for _ in $(seq 300); do
        victim=$(rank_process "$1" "$file")
        [ -n "$victim" ] && break
        sleep 0.1
    done
    sleep "$3"
    begin_clock
    kill "-$2" "$victim"
    wait $waited
    code=$?
    stop_clock
    [ $code -eq 5 ] && in_time && [ ! -e "$file" ] && one_error "$4"
    verdict "rank $1: $2 after $3 s" $?
}

fault 1 KILL 1 'rank 1 was ended by signal 9 \(Killed\)'
fault 0 KILL 4 'rank 0 was ended by signal 9 \(Killed\)'
fault 1 STOP 1 "rank 1 has not answered for $timeout_seconds s: rank 0 waits in "
fault 0 STOP 4 "rank 0 has not answered for $timeout_seconds s: rank 1 waits in "
exit $status
