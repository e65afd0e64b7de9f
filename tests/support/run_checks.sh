#!/usr/bin/env bash
# run_checks.sh [WORD...]: runs every test whose path holds one of the words, or every test.
#
#   tests/*/test_*.c .cu by the program that make built from it; each cmocka test in it counts
#   tests/*/test_*.sh    and the scripts named below; a script counts once, by its exit status (77: skipped, the reason
#   tests/*/test_*.py    is its last line), unless it prints lines "ok NAME", "not ok NAME" or "skip NAME: reason"
#
# Programs run JOBS at a time, which is the cores; scripts run alone: many of them launch a rank for each core.
#
# A test may say "timeout_seconds: 600" in its first 30 lines; else it has 120. Output goes to BUILD/logs/. Scripts get
# the build folder (absolute) as their argument; all get BUILD, PLANS (random plans to try) and SANITIZE. One line per file, the end of the log of what fails,
# every skip with its reason, and last "N passed, N failed, N skipped". Exit 1 if any failed or none ran.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
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
skips=() failures=() begun=()

wanted() { # path: does it hold one of the words?
    [ ${#words[@]} -eq 0 ] && return 0
    local word
    for word in "${words[@]}"; do
        [[ $1 == *"$word"* ]] && return 0
    done
    return 1
}

seconds_allowed() { # source
    local said
    said=$(head -n 30 "$1" | sed -n 's/.*timeout_seconds: *\([0-9]\{1,\}\).*/\1/p' | head -n 1)
    echo "${said:-120}"
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

run() { # source command...: writes the log, and beside it "status allowed_seconds seconds"
    local source=$1 log allowed begin end status
    shift
    log=$(log_of "$source")
    allowed=$(seconds_allowed "$source")
    [ -n "$SANITIZE" ] && allowed=$((allowed * 4))
    begin=${EPOCHREALTIME/[.,]/}
    timeout -k 5 "$allowed" "$@" >"$log" 2>&1 </dev/null
    status=$?
    end=${EPOCHREALTIME/[.,]/}
    echo "$status $allowed $(awk "BEGIN { printf \"%.1f\", ($end - $begin) / 1e6 }")" >"$log.ended"
}

report() { # source
    local source=$1 name=${1#tests/} log status allowed seconds results
    log=$(log_of "$source")
    read -r status allowed seconds <"$log.ended"
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

beside() { # source command...: run, beside at most JOBS - 1 others
    rm -f "$(log_of "$1").ended"
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do
        wait -n
        report_ended
    done
    run "$@" &
    begun+=("$1")
}

alone() { # source command...
    run "$@"
    report "$1"
}

words=("$@")
shopt -s nullglob
for source in tests/*/test_*.c tests/*/test_*.cu; do
    wanted "$source" || continue
    program=$BUILD/${source%.*}
    if [ -x "$program" ]; then
        beside "$source" "$program"
    else
        skipped=$((skipped + 1)) skips+=("${source#tests/}: not built, see what make left out")
    fi
done
wait
report_ended
wanted tests/check_layers.sh && alone tests/check_layers.sh bash tests/check_layers.sh
for source in $named_scripts tests/*/test_*.sh; do
    wanted "$source" || continue
    if [ -f "$source" ]; then
        alone "$source" bash "$source" "$BUILD"
    else
        echo "fail ${source#tests/}"
        failed=$((failed + 1)) failures+=("${source#tests/}: there is no such file")
    fi
done
for source in tests/*/test_*.py; do
    wanted "$source" && alone "$source" python3 "$source" "$BUILD"
done

[ ${#skips[@]} -eq 0 ] || printf 'skipped %s\n' "${skips[@]}"
[ ${#failures[@]} -eq 0 ] || printf 'failed %s\n' "${failures[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
