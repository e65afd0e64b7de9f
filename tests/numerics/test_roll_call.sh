#!/usr/bin/env bash
# test_roll_call.sh BUILD: the roll call on 2 to 4 ranks: one rank tells one line, which names the rank that is missing or
# has failed, and all end with its code, no later than the deadline of who called. timeout_seconds: 180 cores: 0
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${1:-build}/tests/numerics/roll_call
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export ASAN_OPTIONS=detect_leaks=0
failed=0

check() { # ranks mode odd code pattern
    local code begin=$SECONDS
    MPIRUN_TIMEOUT=100 bash tests/support/mpirun.sh "$1" -q "$program" "$2" "$3" >"$scratch/out" 2>"$scratch/err"
    code=$?
    # 30: half of what the ranks that do not call would wait.
    if [ $code -eq "$4" ] && [ $((SECONDS - begin)) -lt 30 ] && [ "$(grep -c . "$scratch/err")" -eq "${6:-1}" ] &&
        [ "$(grep -cE "$5" "$scratch/err")" -eq "${6:-1}" ]; then
        echo "ok $2: rank $3 of $1"
    else
        echo "not ok $2: rank $3 of $1 (exit $code after $((SECONDS - begin)) s)"
        sed 's/^/  # /' "$scratch/err"
        failed=1
    fi
}

check 3 none 0 0 '' 0
check 2 missing 1 5 '^told: rank 1 has not answered for 1 s: rank 0 waits in barrier$'
check 3 missing 0 5 '^told: rank 0 has not answered for 1 s: rank 1 waits in barrier$'
check 4 heard 3 5 '^told: rank 3 has not answered for 1 s: rank 0 waits in barrier$'
check 3 heard 0 5 '^told: rank 0 has not answered for 1 s: rank 1 waits in barrier$'
check 4 members 3 5 '^told: rank 3 has not answered for 6 s: rank 2 waits in the wait of rank 2$'
check 4 members 1 5 '^told: rank 1 has not answered for 6 s: rank 0 waits in the wait of rank 0$'
check 4 failed 2 3 "^told: rank 2: the odd one's own error$"
check 2 failed 0 3 "^told: rank 0: the odd one's own error$"
check 4 several 2 3 "^told: rank 2: the odd one's own error$"
check 4 several 0 3 "^told: rank 0: the odd one's own error$"
check 2 stuck 0 5 '^told: no progress for 1 s, though all ranks answer: rank 0 waits in nothing$'
check 3 own 1 5 '^told: no progress for 1 s, though all ranks answer: rank 1 waits in its disk$'
check 3 silent 2 5 '^rank [01]: no answer from the other ranks within 1 s \(barrier\)$' 2
exit $failed
