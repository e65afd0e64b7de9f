#!/bin/sh
# make demo: the whole job on this machine. Measures it, finds the fastest plan for a small GPT on 4 ranks under a memory
# limit at which one strategy for all is not the answer, and trains on real text by that plan.
# Usage: tests/demo/demo.sh BUILD_FOLDER
set -eu
name=demo
. "$(dirname "$0")/common.sh"
arena_limit_mib=24 # per rank, beside what the profile says a process needs before it holds any tensor
steps=150

make_text

step "measure this machine with 4 ranks"
run galplan profile --model "$here/model.json" --np 4 --microbatches 1,2,4,8 --budget-seconds 30 -o profile.json

step "find the fastest plan"
fixed_bytes=$(sed -n 's/^ *"fixed_bytes": \([0-9]*\),*$/\1/p' profile.json | head -n 1)
memory_mib=$((fixed_bytes / 1048576 + arena_limit_mib))
run galplan search --model "$here/model.json" --profile profile.json --memory "${memory_mib}MiB" \
    --microbatches 1,2,4,8 --top 5 --timing -o plan.json
run galplan verify plan.json

step "train by it"
run galrun plan.json --np 4 --data text.txt --steps "$steps" --log log.jsonl -v

loss=$(final validation_loss)
entropy=$(final unigram_entropy)
awk -v loss="$loss" -v entropy="$entropy" 'BEGIN {
    below = entropy - loss
    printf "\nvalidation loss %.3f nats per byte, %.3f below the entropy of the bytes (%.3f)\n", loss, below, entropy
    exit below >= 0.4 ? 0 : 1
}' || { echo "demo: the loss should be at least 0.4 nat below the entropy" >&2; exit 1; }
