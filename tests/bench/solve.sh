#!/bin/sh
# make bench-solve: the exact solver of raw problems by layers and strategies, and on Oases' equations.
# Usage: tests/bench/solve.sh BUILD_FOLDER
set -eu
"${1:-build}/tests/bench/oases"
exec "${1:-build}/tests/bench/solve"
