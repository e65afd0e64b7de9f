#!/usr/bin/env bash
# Training as in PyTorch, from the committed documents of referee/: see referee.c. Needs no PyTorch.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
program=${BUILD:-build}/tests/numerics/referee
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # Open MPI's, until the process ends
if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi
exec bash tests/support/mpirun.sh 4 "$program" tests/numerics/referee/*.json
