#!/usr/bin/env bash
# same_bytes.sh GALPLAN...: make same-bytes: what the first program writes, every other one writes to the byte.
#
# A dozen searches each, by the first program twice: the plan, the JSON and the exit code. Other compilers and
# optimizations make no difference: sums are taken in one order, in double (-ffp-contract=off), and every tie is broken
# by a rule. Exit 1 if anything differs.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

searches=(
    '--model gpt2-small --cluster h100-8 --devices 1'
    '--model gpt2-xl --cluster h100-8 --batch 8:64:8'
    '--model gpt2-xl --cluster titan-8 --batch 16 --memory 6GiB'
    '--model llama2-7b --cluster a100-8 --batch 32 --gap 0'
    '--model gpt2-large --cluster a10g-8 --batch 8:32 --top 3'
    '--model bert-huge-32 --cluster titan-16 --batch 64 --space dp,zero3,tp,recompute'
    '--model vit-huge-32 --cluster colossal-2 --batch 32 --schedule gpipe'
    '--model t5-large-48 --cluster a100-16 --batch 32'
    '--model swin-huge-32 --cluster v100-8 --batch 32'
    '--model gpt3-15b --cluster a100-64 --batch 64 --schedule interleaved:2'
    '--model gpt2-large --cluster titan-8 --batch 16 --schedule zero-bubble'
    '--model gpt3-175b --cluster titan-8 --batch 8'
    '--model gpt2-medium --cluster titan-8 --batch 8 --space dp,zero3 --pareto --pareto-step 512MiB'
    '--model gpt2-medium --cluster titan-8 --batch 16 --algorithm galvatron-bmw'
    '--model oases-h2048 --cluster titan-8 --batch 16 --algorithm oases'
)

write() { # galplan folder
    local i
    mkdir "$2"
    for i in "${!searches[@]}"; do
        # shellcheck disable=SC2086 # words
        "$1" search ${searches[i]} --json -q -o "$2/$i.plan" >"$2/$i.json" 2>"$2/$i.err"
        echo "exit $?" >>"$2/$i.json"
    done
}

write "$1" "$scratch/first"
if grep -L '^exit [01]$' "$scratch"/first/*.json | grep .; then
    cat "$scratch"/first/*.err
    exit 1
fi
run=0 bad=0
for galplan in "$@"; do # the first once more
    run=$((run + 1))
    write "$galplan" "$scratch/$run"
    if diff -rq "$scratch/first" "$scratch/$run" >"$scratch/diff"; then
        echo "$galplan: the same"
    else
        bad=$((bad + 1))
        echo "$galplan: differs"
        sed -n 's/.*\/\([0-9]*\)\.\([a-z]*\) differ$/\1 \2/p' "$scratch/diff" | while read -r i what; do
            echo "  $what of search ${searches[i]}"
        done
    fi
done
echo "${#searches[@]} searches, $run runs more: $bad differ"
[ $bad -eq 0 ]
