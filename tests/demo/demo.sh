#!/bin/sh
# make demo: the whole job on this machine. Measures it, finds the fastest plan for a small GPT on its cores (4 at most)
# under a memory limit at which one strategy for all is not the answer, and trains on real text by that plan.
# Usage: tests/demo/demo.sh BUILD_FOLDER
set -eu
name=demo
. "$(dirname "$0")/common.sh"

# Ranks, and the memory of each beside what the profile says a process needs before it holds any tensor.
cores=$(nproc)
if [ "$cores" -ge 4 ]; then
    ranks=4 arena_limit_mib=24
elif [ "$cores" -ge 2 ]; then
    ranks=2 arena_limit_mib=40
else
    ranks=1 arena_limit_mib=60
fi

make_text
cp "$here/model.json" .

step "measure this machine with $ranks ranks"
load_before=$(load)
run galplan profile --model model.json --np $ranks --microbatches 1,2,4,8 --budget-seconds 30 -o profile.json

step "find the fastest plan"
fixed_bytes=$(sed -n 's/^ *"fixed_bytes": \([0-9]*\),*$/\1/p' profile.json | head -n 1)
memory_mib=$((fixed_bytes / 1048576 + arena_limit_mib))
run galplan search --model model.json --profile profile.json --memory "${memory_mib}MiB" \
    --microbatches 1,2,4,8 -o plan.json
run galplan verify plan.json --profile profile.json

step "train by it"
set -- galrun plan.json --np $ranks --data text.txt --steps 150 --every 25 --log log.jsonl
printf '$ %s\n' "$*"
"$@" >result.txt
load_after=$(load)

step "the result"
awk -f "$here/loss_curve.awk" log.jsonl
echo
cat result.txt
say_interval "$load_before" "$load_after"

loss=$(final validation_loss)
entropy=$(final unigram_entropy)
awk -v loss="$loss" -v entropy="$entropy" 'BEGIN {
    below = entropy - loss
    printf "validation loss %.3f nats per byte, %.3f below the entropy of the bytes (%.3f)\n", loss, below, entropy
    exit below >= 0.4 ? 0 : 1
}' || { echo "demo: the loss should be at least 0.4 nat below the entropy" >&2; exit 1; }

step "what to try next"
cat <<END
cd $PWD && PATH=$build:\$PATH
# Where the time of a step goes: open trace.json in ui.perfetto.dev.
galplan simulate plan.json --profile profile.json --trace trace.json
# Train longer; keep checkpoints, and figures for TensorBoard.
galrun plan.json --np $ranks --data text.txt --steps 300 --save checkpoints --tensorboard events
# A plan for eight GPUs, with none at hand.
galplan search --model llama3-8b --cluster h100-8 --batch 128
END
