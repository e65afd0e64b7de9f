#!/usr/bin/env bash
# Gradients of a step of every mode on 4 and 8 ranks are just those of one rank where no sum is rounded: exact_layouts.c.
# timeout_seconds: 300 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" LC_ALL=C
program=${BUILD:-build}/tests/numerics/exact_layouts
if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi
failed=0
for ranks in 4 8; do
    bash tests/support/mpirun.sh $ranks "$program" || failed=1
done
exit $failed
