#!/usr/bin/env bash
# test_corpus.sh BUILD: every target on the inputs that fuzzing found and on the fixtures, without libFuzzer.
# timeout_seconds: 120
set -u
build=$1
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    inputs=(tests/fuzz/corpus/"${name#fuzz_}" tests/fixtures/valid tests/fixtures/invalid)
    if "$build/tests/fuzz/$name" "${inputs[@]}" >"$build/logs/$name.log" 2>&1; then
        echo "ok $name: $(tail -n 1 "$build/logs/$name.log")"
        continue
    fi
    find "${inputs[@]}" -type f | while read -r input; do
        "$build/tests/fuzz/$name" "$input" >/dev/null 2>&1 || echo "$name fails on $input"
    done
    echo "not ok $name"
done
