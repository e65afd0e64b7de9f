#!/usr/bin/env bash
# Ranks that share a device, their communication staged through the host, against the host's engine: see cuda_world.c.
# test_cuda_world.sh [BUILD]: the folder that make wrote to (default build).
# timeout_seconds: 600 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
# Open MPI keeps allocations until the process ends; they are not ours to free.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
program=${1:-build}/tests/numerics/cuda_world
if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi
bash tests/support/mpirun.sh 4 "$program" 45
