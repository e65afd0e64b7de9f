#!/bin/sh
# make convergence: a small ViT learns the handwritten digits of scikit-learn in fp32 from one seed under DP, 1D, 2D, 2.5D
# and 3D tensor parallelism and a ring, 200 steps each: training losses are within 1e-4 of those under DP at every step.
# Usage: tests/demo/convergence.sh BUILD_FOLDER
set -eu
name=convergence
. "$(dirname "$0")/common.sh"
steps=200

step "the images: 1,797 digits of 8 by 8 pixels (Debian package python3-sklearn)"
/usr/bin/python3 "$here/digits.py" .
/usr/bin/python3 "$here/convergence.py" "$here" "$here/../numerics/plans/serial.json" . >modes

while read -r mode ranks; do
    step "$mode on $ranks ranks"
    galrun "$mode.json" --np "$ranks" --data images.npy --labels labels.npy --steps $steps --evaluate-batches 1 -q \
        --log "$mode.log" </dev/null | grep loss
    sed -n 's/.*"step": \([0-9]*\), "loss": \([^,]*\), "gradient_norm.*/\1 \2/p' "$mode.log" >"$mode.losses"
done <modes

step "largest distance of a training loss from that under DP"
failed=0
while read -r mode ranks; do
    paste -d ' ' dp8.losses "$mode.losses" | awk -v mode="$mode" -v steps=$steps '
        { off = $2 > $4 ? $2 - $4 : $4 - $2; most = off > most ? off : most; same += $1 == $3 }
        END { printf "%-12s %.1e\n", mode, most; exit !(same == steps && most <= 1e-4) }' || failed=1
done <modes
[ $failed -eq 0 ] || { echo "convergence: losses are to be within 1e-4" >&2; exit 1; }
