#!/usr/bin/env bash
# run.sh BUILD SECONDS [WORD]: each target under libFuzzer for that long, beginning with its committed corpus and the
# fixtures; or only those whose name holds WORD. New inputs go to BUILD/corpus/NAME, findings to BUILD/found/NAME-*.
# One line per target; exit 1 if there is a finding. No single allocation may pass 64 MB, no run 512 MB, no input a minute
# by the clock (machines may be busy).
set -u
build=$1 seconds=$2 word=${3:-}
. tests/support/mpi_env.sh
export ASAN_OPTIONS=detect_leaks=1:quarantine_size_mb=16:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0"
mkdir -p "$build/found" "$build/logs"
grep -oh '"[A-Za-z0-9_]*"' schemas/*.schema.json tests/fixtures/valid/hugging_face*.json | sort -u |
    sed 's/"\(.*\)"/"\\"\1\\""/' >"$build/names.dict"
failed=0
for program in "$build"/tests/fuzz/fuzz_*"$word"*; do
    name=${program##*/fuzz_}
    [ -x "$program" ] && [ "$name" = "${name%.*}" ] || continue
    log=$build/logs/$name.log
    mkdir -p "$build/corpus/$name"
    "$program" -max_total_time="$seconds" -dict="$build/names.dict" -max_len=8192 -timeout=60 -malloc_limit_mb=64 \
        -rss_limit_mb=512 -artifact_prefix="$build/found/$name-" -close_fd_mask=3 -print_final_stats=1 -verbosity=1 \
        "$build/corpus/$name" tests/fuzz/corpus/"$name" tests/fixtures/valid tests/fixtures/invalid >"$log" 2>&1
    status=$?
    [ $status -eq 0 ] || failed=1
    printf '%-8s %s, %s executions, %s, exit %d\n' "$name" "$(sed -n 's/^Done [0-9]* runs in //p' "$log" | tail -n 1)" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
        "$(grep -o 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$log" | tail -n 1)" $status
done
exit $failed
