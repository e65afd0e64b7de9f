#!/usr/bin/env bash
# A loss that is not finite, by an absurd learning rate: --on-nan stop names block and step, skip leaves weights and
# moments alone on all ranks and counts. timeout_seconds: 120 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh

for plan in serial mixed zero3-pp2 tp2-dp2 serial-fp32 mixed-fp32; do
    sed 's/"learning_rate": 0.01/"learning_rate": 1000/; s/"gradient_clip_norm": 1/"gradient_clip_norm": 0/' \
        $plans/${plan%-fp32}.json >"$scratch/$plan.json"
    [ $plan != ${plan%-fp32} ] && sed -i 's/"compute_dtype": "fp64"/"compute_dtype": "fp32"/' "$scratch/$plan.json"
done
plans=$scratch

for plan in serial mixed zero3-pp2 tp2-dp2 serial-fp32 mixed-fp32; do
    train $plan --steps 400 >"$scratch/out" 2>"$scratch/err"
    [ $? -eq 5 ] && one_error '.*step [0-9]+: the loss is .* diverged, first in the output of block [0-9]+ \([a-z_]+\), (for|back)ward'
    verdict "$plan: stop names block and step" $?
    sed -n 's/.*output of \(block [0-9]* .*\);.*/\1/p' "$scratch/err" >"$scratch/block-$plan"
    at=$(sed -n 's/.*step \([0-9]*\): the loss.*/\1/p' "$scratch/err")
    train $plan --steps $((at - 1)) --save "$scratch/before-$plan" >"$scratch/out" 2>"$scratch/err" &&
        train $plan --steps $((at + 2)) --on-nan skip --save "$scratch/after-$plan" --log "$scratch/log" \
            >"$scratch/out" 2>"$scratch/err"
    verdict "$plan: skip goes on" $?
    [ "$(grep -c '"event": "skip"' "$scratch/log")" -eq 3 ] && grep -q "\"step\": $((at + 2)), \"skipped\": 3}" "$scratch/log"
    verdict "$plan: skips are counted" $?
    same=0
    for shard in "$scratch/before-$plan"/step-*/rank-*.bin; do
        cmp -s "$shard" "$scratch/after-$plan"/step-*/"$(basename "$shard")" || same=1
    done
    verdict "$plan: weights and moments are those before" $same
done
cmp -s "$scratch/block-serial" "$scratch/block-tp2-dp2"
verdict "two plans name the same place ($(cat "$scratch/block-serial"))" $?
exit $status
