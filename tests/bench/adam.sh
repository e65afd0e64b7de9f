#!/usr/bin/env bash
# make bench-adam: the host's Adam in fp32 beside the memory's limit (28 bytes a parameter, measured in the same run) and
# beside the fastest AdamW that the PyTorch of this machine has for the CPU.
#
# Processes alternate; the medians over ROUNDS count. Arrays are far larger than any cache share of a core, but a large
# last-level cache may hold small ones: PARAMETERS says how many there are (4 arrays of 4 bytes each).
# Usage: tests/bench/adam.sh [BUILD]; ROUNDS (5), RUNS (9), THREADS (2), PARAMETERS (67108864), PYTHON (python3) by
# environment. Exit 1 if less than 80 % of the limit, or slower than PyTorch.
set -eu
shopt -s inherit_errexit
build=${1:-build}
rounds=${ROUNDS:-5} runs=${RUNS:-9} threads=${THREADS:-2} parameters=${PARAMETERS:-67108864} python=${PYTHON:-python3}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
has_torch=1
"$python" -c 'import torch' 2>/dev/null || has_torch=

middle() { # of the numbers on stdin, one per line; of an even count the lower one
    sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
echo "$threads threads, $parameters parameters, $rounds rounds of $runs steps"
echo 'round   Adam GB/s   limit GB/s   of limit   PyTorch GB/s   ratio'
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for round in $(seq "$rounds"); do
    set -- $("$build/tests/bench/adam" "$threads" "$parameters" "$runs")
    adam=$1 of_limit=$5 gigabytes=$3 limit=$4
    torch=0 name='no PyTorch'
    if [ -n "$has_torch" ]; then
        set -- $("$python" "$root/tests/bench/adam_torch.py" "$threads" "$parameters" "$runs" 2>/dev/null)
        torch=$1
        shift
        name=$*
    fi
    echo "$of_limit $(awk "BEGIN { t = $torch; print (t > 0) ? $adam / t : 0 }")" >>"$lines"
    awk -v r="$round" -v a="$gigabytes" -v l="$limit" -v f="$of_limit" -v t="$torch" -v x="$(tail -n 1 "$lines")" \
        'BEGIN { split(x, y, " "); printf "%5d %11.2f %12.2f %10.2f %14.2f %7.2f\n", r, a, l, f, t * 28e-9, y[2] }'
done
of_limit=$(cut -d' ' -f1 "$lines" | middle) ratio=$(cut -d' ' -f2 "$lines" | middle)
printf "median: %.2f of the limit (wanted 0.80), %.2f x %s (wanted 1.00)\n" "$of_limit" "$ratio" "$name"
awk -v f="$of_limit" -v r="$ratio" -v t="$has_torch" 'BEGIN { exit f >= 0.8 && (t == "" || r >= 1.0) ? 0 : 1 }'
