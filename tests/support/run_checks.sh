#!/usr/bin/env bash
# run_checks.sh [WORD...]: runs every test whose path holds one of the words, or every test.
#
#   tests/*/test_*.c .cu by the program that make built from it; each cmocka test in it counts
#   tests/*/test_*.sh    and the scripts named below; a script counts once, by its exit status (77: skipped, the reason
#   tests/*/test_*.py    is its last line), unless it prints lines "ok NAME", "not ok NAME" or "skip NAME: reason"
#
# A test may say in its first 30 lines "cores: N", how many it keeps busy: else it has 1, but a script of the folders
# faults, hosts and numerics, which launch ranks and time them, all. Those of 1 run as many at a time as there are JOBS,
# which is the cores; those of 0, which mostly wait (for a deadline of ranks, say), one after the other beside them; the
# others alone, behind. Likewise "timeout_seconds: 600"; else it has 120.
#
# Output goes to BUILD/logs/, and the seconds of each file to BUILD/logs/times.txt: those of processors (user and system,
# of all its processes), those of the clock, its cores, its name; the dearest first. Scripts get the build folder (absolute) as their argument; all get BUILD, PLANS (random
# plans to try) and SANITIZE. One line per file, the end of the log of what fails, every skip with its reason, and last
# "N passed, N failed, N skipped". Exit 1 if any failed or none ran.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
. tests/support/mpi_env.sh
mkdir -p "${BUILD:=build}/logs"
BUILD=$(cd "$BUILD" && pwd)
export BUILD PLANS="${PLANS:-100}" SANITIZE="${SANITIZE:-}"
JOBS=${JOBS:-$(nproc)}
export LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0"
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1" UBSAN_OPTIONS="print_stacktrace=1"
export TSAN_OPTIONS="suppressions=$PWD/tests/support/tsan.supp"

named_scripts='tests/golden/run.sh tests/numerics/equivalence.sh'
passed=0 failed=0 skipped=0
skips=() failures=() begun=() times=()

wanted() { # path: does it hold one of the words?
    [ ${#words[@]} -eq 0 ] && return 0
    local word
    for word in "${words[@]}"; do
        [[ $1 == *"$word"* ]] && return 0
    done
    return 1
}

says() { # source key: the number behind the key, or nothing
    local lines
    mapfile -t -n 30 lines <"$1"
    [[ "${lines[*]}" =~ [[:space:]]$2:\ *([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

cores_of() { # source
    case $1 in
    tests/faults/*.sh | tests/hosts/*.sh | tests/numerics/*.sh | tests/numerics/*.py) says "$1" cores || echo all ;;
    *) says "$1" cores || echo 1 ;;
    esac
}

script_results() { # log status: as cmocka_results.awk
    if grep -Eq '^(ok|not ok|skip) ' "$1"; then
        sed -n -e 's/^ok /pass /p' -e 's/^not ok /fail /p' -e '/^skip /p' "$1"
        return
    fi
    case $2 in
    0) echo 'pass all' ;;
    77) echo "skip all: $(tail -n 1 "$1")" ;;
    esac
}

count() { # name status allowed_seconds seconds log results
    local verdict rest file_passed=0 file_failed=0 file_skipped=0
    while read -r verdict rest; do
        case $verdict in
        pass) file_passed=$((file_passed + 1)) ;;
        fail) file_failed=$((file_failed + 1)) failures+=("$1: $rest") ;;
        skip) file_skipped=$((file_skipped + 1)) skips+=("$1: $rest") ;;
        esac
    done <<<"$6"
    local why="exit $2"
    [ "$2" -eq 124 ] || [ "$2" -eq 137 ] && why="ended after $3 s"
    if [ "$2" -ne 0 ] && [ "$2" -ne 77 ] && [ $file_failed -eq 0 ]; then
        file_failed=1 failures+=("$1: $why")
    elif [ $((file_passed + file_failed + file_skipped)) -eq 0 ]; then
        file_failed=1 failures+=("$1: ran no test")
    fi
    passed=$((passed + file_passed)) failed=$((failed + file_failed)) skipped=$((skipped + file_skipped))
    verdict=pass
    [ $file_passed -eq 0 ] && verdict=skip
    [ $file_failed -gt 0 ] && verdict=fail
    printf '%s %s %s s (%d' "$verdict" "$1" "$4" $file_passed
    [ $file_failed -gt 0 ] && printf ', %d failed' $file_failed
    [ $file_skipped -gt 0 ] && printf ', %d skipped' $file_skipped
    echo ')'
    if [ $file_failed -gt 0 ]; then
        echo "    $why, the end of $5:"
        tail -n 40 "$5" | sed 's/^/    | /'
    fi
}

log_of() { # source
    local name=${1#tests/}
    echo "$BUILD/logs/$(tr / - <<<"${name%.*}").log"
}

run() { # source: writes the log, and beside it "status allowed_seconds seconds processor_seconds"
    local source=$1 log allowed seconds status words TIMEFORMAT='%R %U %S'
    log=$(log_of "$source")
    case $source in
    *.sh) words=(bash "$source" "$BUILD") ;;
    *.py) words=(python3 "$source" "$BUILD") ;;
    *) words=("$BUILD/${source%.*}") ;;
    esac
    allowed=$(says "$source" timeout_seconds)
    allowed=${allowed:-120}
    [ -n "$SANITIZE" ] && allowed=$((allowed * 4))
    { time timeout -k 5 "$allowed" "${words[@]}" >"$log" 2>&1 </dev/null; } 2>"$log.ending"
    status=$?
    seconds=$(tail -n 1 "$log.ending" | awk '{ printf "%.1f %.1f", $1, $2 + $3 }')
    echo "$status $allowed $seconds" >"$log.ending"
    mv "$log.ending" "$log.ended"
}

report() { # source
    local source=$1 name=${1#tests/} log status allowed seconds processor_seconds results
    log=$(log_of "$source")
    read -r status allowed seconds processor_seconds <"$log.ended"
    times+=("$processor_seconds $seconds $(cores_of "$source") ${name%.*}")
    if [[ $source == *.c || $source == *.cu ]]; then
        results=$(awk -f tests/support/cmocka_results.awk "$log")
    else
        results=$(script_results "$log" "$status")
    fi
    count "${name%.*}" "$status" "$allowed" "$seconds" "$log" "$results"
}

report_ended() { # the first of those begun, as far as they have ended
    while [ ${#begun[@]} -gt 0 ] && [ -e "$(log_of "${begun[0]}").ended" ]; do
        report "${begun[0]}"
        begun=("${begun[@]:1}")
    done
}

beside() { # source: run, beside at most JOBS - 1 others and those that wait
    while [ "$(jobs -rp | grep -cvx "${waiter:-none}")" -ge "$JOBS" ]; do
        wait -n
        report_ended
    done
    run "$1" &
    begun+=("$1")
}

# ---- which ----

words=("$@")
waiting=() single=() others=()
shopt -s nullglob
for source in $named_scripts tests/*/test_*.sh tests/*/test_*.py tests/*/test_*.c tests/*/test_*.cu; do
    wanted "$source" || continue
    if [ ! -f "$source" ]; then
        echo "fail ${source#tests/}"
        failed=$((failed + 1)) failures+=("${source#tests/}: there is no such file")
        continue
    fi
    if [[ $source == *.c || $source == *.cu ]] && [ ! -x "$BUILD/${source%.*}" ]; then
        skipped=$((skipped + 1)) skips+=("${source#tests/}: not built, see what make left out")
        continue
    fi
    rm -f "$(log_of "$source").ended"
    case $(cores_of "$source") in
    0) waiting+=("$source") ;;
    1) single+=("$source") ;;
    *) others+=("$source") ;;
    esac
done

# ---- all of them ----

{ for source in "${waiting[@]}"; do run "$source"; done; } &
waiter=$!
for source in "${single[@]}"; do
    beside "$source"
done
wait
report_ended
for source in "${waiting[@]}"; do
    report "$source"
done
for source in "${others[@]}"; do
    run "$source"
    report "$source"
done

[ ${#times[@]} -eq 0 ] || printf '%s\n' "${times[@]}" | sort -rn >"$BUILD/logs/times.txt"
[ ${#skips[@]} -eq 0 ] || printf 'skipped %s\n' "${skips[@]}"
[ ${#failures[@]} -eq 0 ] || printf 'failed %s\n' "${failures[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
