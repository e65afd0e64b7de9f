#!/usr/bin/env python3
"""make bench-search-gains: what an axis of the search buys, on four clusters of the catalogue.

Usage: tests/bench/search_gains.py GALPLAN [ONLY]

Samples/s of the best plan in bf16 among dp, sdp, tp, sp, recompute and selective ("none"), among these and the axis
that a column names, and among all of them: the README's table. ONLY: rows whose cluster's name has this in it."""
import json
import os
import subprocess
import sys
import tempfile

from one_search import once

LIMIT_SECONDS = 300
BASE = "dp,sdp,tp,sp,recompute,selective"
AXES = ["ulysses", "ring", "zigzag", "2d", "2.5d"]
# model, positions, batch, cluster
ROWS = [
    ("llama3-8b", 131072, 8, "h100-8"),
    ("llama3-8b", 131072, 16, "h100-64"),
    ("gpt2-xl", 16384, 8, "rtx3090-nvlink-32"),
    ("llama2-7b", 8192, 64, "colossal-3"),
]


def document(galplan, model, positions, folder):
    """The catalogue's model with other positions, in bf16."""
    printed = subprocess.run([galplan, "models", model], check=True, capture_output=True, text=True).stdout
    changed = {**json.loads(printed), "sequence_length": positions, "compute_dtype": "bf16"}
    path = os.path.join(folder, f"{model}-{positions}.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(changed, out)
    return path


def rate(galplan, path, batch, cluster, space):
    """Samples/s as printed: '-' where no plan fits, '>' where the limit came first."""
    _, seconds, _, found = once(
        galplan, ["--model", path, "--cluster", cluster, "--batch", str(batch), "--space", space], LIMIT_SECONDS)
    return ">" if seconds is None else f"{found['samples_per_second']:.4g}" if found else "-"


def main():
    galplan = sys.argv[1]
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    spaces = [BASE, *(f"{BASE},{axis}" for axis in AXES), ",".join([BASE, *AXES])]
    print(f"{'model, positions, batch':24} {'cluster':17}" + "".join(f"{name:>8}" for name in ["none", *AXES, "all"]))
    with tempfile.TemporaryDirectory() as folder:
        for model, positions, batch, cluster in ROWS:
            if only in cluster:
                path = document(galplan, model, positions, folder)
                print(f"{f'{model}, {positions:,}, {batch}':24} {cluster:17}", end="", flush=True)
                for space in spaces:
                    print(f"{rate(galplan, path, batch, cluster, space):>8}", end="", flush=True)
                print(flush=True)


main()
