#!/usr/bin/env bash
# A rank of galplan profile that is killed or stopped at several moments of measuring: all ranks end within --timeout, one
# line names the rank, exit 5, and no profile is written. timeout_seconds: 180 cores: 1
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

whole_milliseconds() { # of a profile without a fault: the moments of the faults are shares of it
    begin_clock
    profile "$scratch/whole.json" 2>"$scratch/err" || cat "$scratch/err"
    stop_clock
    echo "# a whole profile takes $took ms"
    whole=$took
}

# A profile that has become faster than the one that was timed may be over before its fault, or the ranks may be about to
# end, of which the launcher then tells: then again, earlier.
fault() { # rank signal percent error: the moment is a share of a whole profile, from the start of the rank
    local percent=$3
    until fault_at "$1" "$2" "$percent" && ! grep -q 'not ended .* after rank' "$scratch/err"; do
        percent=$((percent / 2))
        [ $percent -gt 3 ] || break
    done
    [ $code -eq 5 ] && in_time && [ ! -e "$file" ] && one_error "$4"
    verdict "rank $1: $2 after $3 % of a profile" $?
}

fault_at() { # rank signal percent: false if the rank was over before
    local waited victim='' there milliseconds=$((whole * $3 / 100))
    file=$scratch/$1-$2-$3.json
    profile "$file" >"$scratch/out" 2>"$scratch/err" &
    waited=$!
    for _ in $(seq 300); do
        victim=$(rank_process "$1" "$file")
        [ -n "$victim" ] && break
        sleep 0.1
    done
    sleep "$((milliseconds / 1000)).$(printf %03d $((milliseconds % 1000)))"
    begin_clock
    kill "-$2" "$victim" 2>/dev/null
    there=$?
    wait $waited
    code=$?
    stop_clock
    return $there
}

whole_milliseconds
fault 1 KILL 15 'rank 1 was ended by signal 9 \(Killed\)'
fault 0 KILL 50 'rank 0 was ended by signal 9 \(Killed\)'
# A kill waits for nobody: what it took is the launcher's way of ending ranks, which comes on top of a deadline.
[ $took -gt $overhead ] && overhead=$took
fault 1 STOP 15 "rank 1 has not answered for $timeout_seconds s: rank 0 waits in "
fault 0 STOP 50 "rank 0 has not answered for $timeout_seconds s: rank 1 waits in "
exit $status
