#!/bin/sh
# make demo-bert: a small BERT learns to fill masked bytes of real text on 2 ranks: of verses, each padded; its loss falls
# below the entropy of the bytes, which knows no neighbours.
# Usage: tests/demo/bert.sh BUILD_FOLDER
set -eu
name=demo-bert
. "$(dirname "$0")/common.sh"

make_text

step "measure this machine with 2 ranks, find the fastest plan"
run galplan profile --model "$here/bert.json" --np 2 --microbatches 1,2 --budget-seconds 15 -o profile.json
run galplan search --model "$here/bert.json" --profile profile.json --microbatches 1,2 --top 3 -o plan.json
run galplan verify plan.json

step "train by it"
run galrun plan.json --np 2 --data text.txt --log log.jsonl -v

# 20 batches of 32 samples ask for some 5,000 bytes: the mean of losses that spread by 1.2 nats is known to 0.02. A tenth
# of a nat below what frequencies alone give is what neighbours say.
loss=$(final validation_loss)
entropy=$(final unigram_entropy)
awk -v loss="$loss" -v entropy="$entropy" 'BEGIN {
    below = entropy - loss
    printf "\nvalidation loss %.3f nats per masked byte, %.3f below the entropy of the bytes (%.3f)\n", loss, below, entropy
    exit below >= 0.1 ? 0 : 1
}' || { echo "demo: the loss should be at least 0.1 nat below the entropy" >&2; exit 1; }
