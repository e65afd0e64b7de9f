#!/bin/sh
# make demo-t5: a small T5 learns to copy. Its source is a window of text, its target the first half of that window; the
# plan has two stages, and the encoder's output goes on from the first to the second.
# Usage: tests/demo/t5.sh BUILD_FOLDER
set -eu
name=demo-t5
. "$(dirname "$0")/common.sh"
steps=1000

make_text

step "the plan: 2 + 2 layers, cut behind the first cross-attention"
run galplan verify "$here/t5_copy.json"

step "train by it"
run galrun "$here/t5_copy.json" --np 2 --data text.txt --steps "$steps" --log log.jsonl -v

loss=$(final validation_loss)
entropy=$(final unigram_entropy)
awk -v loss="$loss" -v entropy="$entropy" 'BEGIN {
    printf "\nvalidation loss %.4f nats per byte copied (the bytes have %.3f)\n", loss, entropy
    exit loss <= 0.3 ? 0 : 1
}' || { echo "demo-t5: the loss should be at most 0.3 nat" >&2; exit 1; }
