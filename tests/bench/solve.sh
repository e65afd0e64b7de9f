#!/bin/sh
# make bench-solve: the exact solver of raw problems by layers and strategies.
# Usage: tests/bench/solve.sh BUILD_FOLDER
set -eu
exec "${1:-build}/tests/bench/solve"
