#!/usr/bin/env bash
# make bench-host: training speed and memory of galrun on one process of two threads against PyTorch on the CPU.
#
# GPT-2 small at sequence 256: 12 layers, hidden 768, vocabulary 50257, microbatch 4, fp32, no dropout, AdamW with
# clipping; the tokens are the bytes of this repository's sources. Runs alternate, a process each: one step to warm up
# and STEPS timed ones, of which the median counts; then the median over RUNS runs of each. Needs an idle machine.
# PyTorch runs on the same OpenBLAS kernels, with the settings that were fastest for it: malloc keeps what is freed,
# neither OpenMP's nor OpenBLAS's threads spin where the other's need the core, and its own kernels may use AVX-512.
# PLAIN=1 leaves these out.
# Usage: tests/bench/host.sh [BUILD]; RUNS (9), STEPS (2), THREADS (2), PYTHON (python3) by environment. Exit 1 if
# galrun is slower; 77 without PyTorch.
set -eu
shopt -s inherit_errexit
build=${1:-build}
runs=${RUNS:-9} steps=${STEPS:-2} threads=${THREADS:-2} python=${PYTHON:-python3}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"$python" -c 'import torch' 2>/dev/null || {
    echo "skipped: $python has no torch (Debian: apt-get install python3-torch)"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

sed -e 's/"sequence_length": [0-9]*/"sequence_length": 256/' -e 's/_dropout": [0-9.]*/_dropout": 0/' \
    -e 's/"global_batch_samples": [0-9]*/"global_batch_samples": 4/' -e 's/"warmup_steps": [0-9]*/"warmup_steps": 0/' \
    "$root/schemas/catalogue/models/gpt2-small.json" >"$folder/model.json"
find "$root/schemas" "$root/runtime" -name '*.[ch]' -print | LC_ALL=C sort | xargs cat >"$folder/text"
"$build/galplan" search --model "$folder/model.json" --cluster "$root/tests/fixtures/valid/cluster_one_device.json" \
    --memory 16GiB --space dp --batch 4 --microbatches 1 -o "$folder/plan.json" >/dev/null

middle() { # of the numbers on stdin, one per line; of an even count the lower one
    sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# The kernels that galrun chose, for both.
core=$("$build/galrun" "$folder/plan.json" --data "$folder/text" --steps 0 --evaluate-batches 1 -v 2>&1 |
    sed -n 's/.*OpenBLAS [0-9.]* \([A-Za-z]*\),.*/\1/p')
export OPENBLAS_CORETYPE=$core
settings=(OPENBLAS_NUM_THREADS="$threads" OMP_NUM_THREADS="$threads")
if [ -z "${PLAIN:-}" ]; then
    settings+=(MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456
        OMP_WAIT_POLICY=passive OPENBLAS_THREAD_TIMEOUT=10)
    ! grep -q avx512f /proc/cpuinfo || settings+=(ATEN_CPU_CAPABILITY=avx512)
fi

run_galrun() { # prints tokens/s and MiB at the peak
    "$build/galrun" "$folder/plan.json" --data "$folder/text" --steps $((steps + 1)) --evaluate-batches 1 -q \
        --threads "$threads" --log "$folder/log" >"$folder/out"
    sed -n 's/.*"event": "step".*"tokens_per_second": \([0-9.e+]*\).*/\1/p' "$folder/log" | tail -n +2 | middle
    awk '/^MiB, stage 0/ { print $5 }' "$folder/out"
}

run_torch() { # prints tokens/s and MiB at the peak
    env "${settings[@]}" "$python" "$root/tests/bench/host_torch.py" "$folder/model.json" "$folder/text" \
        $((steps + 1)) "$threads" >"$folder/torch"
    sed -n 's/^tokens_per_second //p' "$folder/torch" | tail -n +2 | middle
    sed -n 's/^peak_mib //p' "$folder/torch"
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
echo "$threads threads, OpenBLAS kernels $core; $runs runs of each, alternating, $steps timed steps a run"
: >"$folder/lines"
for run in $(seq "$runs"); do
    galrun=$(run_galrun)
    torch=$(run_torch)
    set -- $galrun $torch
    [ "$run" != 1 ] || {
        sed -n 's/^version //p' "$folder/torch"
        echo 'run   galrun tokens/s   PyTorch tokens/s   ratio   galrun MiB   PyTorch MiB'
    }
    echo "$1 $3 $(awk "BEGIN { print $1 / $3 }") $2 $4" >>"$folder/lines"
    tail -n 1 "$folder/lines" | awk -v run="$run" '{ printf "%3d %17.1f %18.1f %7.2f %12.0f %13.0f\n", run, $1, $2, $3, $4, $5 }'
done
column() { cut -d' ' -f"$1" "$folder/lines" | middle; }
awk -v a="$(column 1)" -v b="$(column 2)" -v r="$(column 3)" -v m="$(column 4)" -v n="$(column 5)" 'BEGIN {
    printf "median of %s: galrun %.1f, PyTorch %.1f tokens/s, ratio of medians %.2f, median ratio %.2f (wanted 1.00)\n",
        "'"$runs"'", a, b, a / b, r
    printf "peak of resident memory: galrun %.0f, PyTorch %.0f MiB, ratio %.2f\n", m, n, m / n
}'
"$build/tests/bench/host_share" "$folder/plan.json" "$folder/text" "$threads" "$steps"
awk -v r="$(column 3)" 'BEGIN { exit r >= 1.0 ? 0 : 1 }'
