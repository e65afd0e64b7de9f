#!/bin/sh
# make bench-program: lowering, verification, simulation and prices against their targets.
# Usage: tests/bench/program.sh BUILD_FOLDER
set -eu
exec "${1:-build}/tests/bench/program"
