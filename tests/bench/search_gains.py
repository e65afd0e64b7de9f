#!/usr/bin/env python3
"""make bench-search-gains: what an axis of the search buys, on four clusters of the catalogue.

Usage: tests/bench/search_gains.py GALPLAN [ONLY]

Samples/s of the best plan in bf16 among dp, sdp, tp, sp, recompute and selective ("none"), among these and the axis
that a column names, and among all of them: the README's table. ONLY: rows whose cluster's name has this in it."""
import sys

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


def rate(galplan, model, positions, batch, cluster, space):
    """Samples/s as printed: '-' where no plan fits, '>' where the limit came first."""
    arguments = ["--model", model, "--dtype", "bf16", "--sequence", str(positions), "--cluster", cluster, "--batch",
                 str(batch), "--space", space]
    _, seconds, _, found = once(galplan, arguments, LIMIT_SECONDS)
    return ">" if seconds is None else f"{found['samples_per_second']:.4g}" if found else "-"


def main():
    galplan = sys.argv[1]
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    spaces = [BASE, *(f"{BASE},{axis}" for axis in AXES), ",".join([BASE, *AXES])]
    print(f"{'model, positions, batch':24} {'cluster':17}" + "".join(f"{name:>8}" for name in ["none", *AXES, "all"]))
    for model, positions, batch, cluster in ROWS:
        if only in cluster:
            print(f"{f'{model}, {positions:,}, {batch}':24} {cluster:17}", end="", flush=True)
            for space in spaces:
                print(f"{rate(galplan, model, positions, batch, cluster, space):>8}", end="", flush=True)
            print(flush=True)


main()
