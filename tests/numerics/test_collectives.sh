#!/usr/bin/env bash
# MPI calls of a training step, counted by libpmpi_count.so (which knows nothing of the project), against closed forms,
# per mode and rank: see tests/support/step_counts.h.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
# Open MPI unloads its modules before leaks are looked for: what they keep has no name to suppress.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
tests=${BUILD:-build}/tests
program=$tests/numerics/collectives
scratch=$(mktemp -d) || exit 4
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C
failed=0

if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi
if grep -q '__[at]san_init' "$program"; then
    echo 'skip collectives: a sanitizer must be loaded before the counting layer'
    exit 0
fi
for ranks in 4 8; do
    count=$scratch/$ranks last=$((ranks - 1))
    mkdir "$count"
    bash tests/support/mpirun.sh $ranks -x LD_PRELOAD="$tests/libpmpi_count.so" \
        -x GALPLAN_COUNT_FILE="$count/count" "$program" || { echo 'not ok a step of every mode runs'; exit 1; }

    for rank in $(seq 0 $last); do
        "$program" expect $ranks "$rank" >"$count/expected.$rank"
    done
    for mode in $(cut -d' ' -f1 "$count/expected.0" | uniq); do
        verdict=ok
        for rank in $(seq 0 $last); do
            grep -- "^$mode " "$count/expected.$rank" | sort >"$scratch/want"
            grep -- "^$mode " "$count/count.$rank" | sort >"$scratch/got"
            if ! diff "$scratch/want" "$scratch/got" >"$scratch/diff"; then
                echo "$mode, rank $rank: expected <, counted > (function, group, calls, in place, bytes)"
                cat "$scratch/diff"
                verdict='not ok'
            fi
        done
        [ "$verdict" = ok ] || failed=1
        echo "$verdict $mode: calls, those in place, and bytes of $ranks ranks are the closed form's; no communicator is made"
    done
done
exit $failed
