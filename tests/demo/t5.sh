#!/bin/sh
# make demo-t5: a small T5 learns to copy. Its source is a window of text, its target the first half of that window; the
# plan has two stages, and the encoder's output goes on from the first to the second.
# Usage: tests/demo/t5.sh BUILD_FOLDER
set -eu
build=$(cd "${1:-build}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
out=$build/demo-t5
steps=1000
PATH=$build:$PATH
mkdir -p "$out"
cd "$out"

step() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

step "the text: the King James Bible (Debian package bible-kjv), verses without their references"
command -v bible >/dev/null || { echo "demo-t5: the command 'bible' is missing: apt-get install bible-kjv" >&2; exit 1; }
bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >text.txt
wc -c text.txt

step "the plan: 2 + 2 layers, cut behind the first cross-attention"
run galplan verify "$here/t5_copy.json"

step "train by it"
run galrun "$here/t5_copy.json" --np 2 --data text.txt --steps "$steps" --log log.jsonl -v

loss=$(sed -n 's/.*"event": "final".*"validation_loss": \([0-9.e+-]*\).*/\1/p' log.jsonl)
entropy=$(sed -n 's/.*"event": "final".*"unigram_entropy": \([0-9.e+-]*\).*/\1/p' log.jsonl)
awk -v loss="$loss" -v entropy="$entropy" 'BEGIN {
    printf "\nvalidation loss %.4f nats per byte copied (the bytes have %.3f)\n", loss, entropy
    exit loss <= 0.3 ? 0 : 1
}' || { echo "demo-t5: the loss should be at most 0.3 nat" >&2; exit 1; }
