#!/usr/bin/env bash
# Training as in PyTorch, from the committed documents of referee/: see referee.c. Needs no PyTorch. cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
# Open MPI unloads its modules before leaks are looked for: what they keep has no name to suppress.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
program=${BUILD:-build}/tests/numerics/referee
if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi
exec bash tests/support/mpirun.sh 4 "$program" tests/numerics/referee/*.json
