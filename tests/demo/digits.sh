#!/bin/sh
# make demo-digits: a small ViT learns the handwritten digits of scikit-learn on 2 ranks: at least 95 % of the tenth that
# it does not train on.
# Usage: tests/demo/digits.sh BUILD_FOLDER
set -eu
name=demo-digits
. "$(dirname "$0")/common.sh"
least_percent=95

step "the images: 1,797 digits of 8 by 8 pixels (Debian package python3-sklearn)"
/usr/bin/python3 "$here/digits.py" .
ls -l images.npy labels.npy

step "measure this machine with 2 ranks, find the fastest plan"
run galplan profile --model "$here/digits.json" --np 2 --microbatches 1,2 --budget-seconds 15 -o profile.json
run galplan search --model "$here/digits.json" --profile profile.json --microbatches 1,2 --top 3 -o plan.json
run galplan verify plan.json

step "train by it"
begin=$(date +%s)
run galrun plan.json --np 2 --data images.npy --labels labels.npy --evaluate-every 100 --evaluate-batches 3 --log log.jsonl
echo "trained in $(($(date +%s) - begin)) s"

accuracy=$(final accuracy)
awk -v accuracy="$accuracy" -v least="$least_percent" 'BEGIN {
    printf "\n%.2f %% of the held-out digits are read right\n", 100 * accuracy
    exit 100 * accuracy >= least ? 0 : 1
}' || { echo "demo: it should be at least $least_percent %" >&2; exit 1; }
