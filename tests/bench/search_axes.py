#!/usr/bin/env python3
"""make bench-search-axes: how long a search takes with every axis, on 8, 64 and 1,024 devices.

Usage: tests/bench/search_axes.py GALPLAN [DEVICES [DTYPE]]

In bf16 and, on 8 and 64 devices, in fp32. Wall seconds of `galplan search --space ...` from catalogue names on all cores, the median of as many runs as CASES says,
beside the target; behind them processor seconds and resident memory. Of every axis; units of sharding (bucket, and
chunk, which has a search of its own behind it) are added in rows without a target, and so is a batch of which devices
have no room for what would be fastest, so that what goes to the host is searched. A search of more than LIMIT_SECONDS
is stopped and reported as such. Exit 1 if a target is missed."""
import itertools
import os
import sys

from one_search import once

LIMIT_SECONDS = 120
AXES = "dp,sdp,tp,sp,recompute,selective,ulysses,ring,zigzag,2d,2.5d,3d,keep,stepped,overlap,offload"
OFFLOAD = ",offload"
DTYPES = ["bf16", "fp32"]
MODELS = ["gpt2-xl", "bert-huge-32", "t5-large-48", "llama2-7b", "swin-huge-32", "vit-huge-32"]
SHORT_BATCH = 64
# cluster, batch, target in seconds, runs, models
CASES = [
    ("h100-8", 16, 0.2, 9, MODELS),
    ("a100-64", 64, 2.0, 3, MODELS),
    ("h100-1024", 1024, 20.0, 1, [*MODELS, "gpt3-175b"]),
]


def measure(galplan, dtype, runs, model, cluster, batch, axes, target):
    """Prints the row; returns whether the target, if there is one, is met."""
    arguments = ["--model", model, "--cluster", cluster, "--batch", str(batch), "--space", axes, "--dtype", dtype]
    results = [once(galplan, arguments, LIMIT_SECONDS) for _ in range(runs)]
    beyond = axes.removeprefix(AXES).replace(",", ", ") if OFFLOAD in axes else ", no offload"
    label = f"{model} {dtype} on {cluster}, batch {batch}{beyond}"
    wanted = f"{target:>5} s" if target else f"{'-':>7}"
    if any(r[0] is None for r in results):
        print(f"{label:49} {'> ' + str(LIMIT_SECONDS):>7} s {wanted}  MISSED", flush=True)
        return False
    seconds, processor, megabytes, found = sorted(results, key=lambda r: r[0])[len(results) // 2]
    said = (f"{found['samples_per_second']:9.4g} samples/s, gap {100 * found['optimality_gap']:.2f} %" if found
            else "no plan fits")
    missed = bool(target) and seconds > target
    print(f"{label:49} {seconds:7.2f} s {wanted} {processor:7.2f} s {megabytes:>5.0f} MB  {said}"
          f"{'  MISSED' if missed else ''}", flush=True)
    return not missed


def main():
    galplan = sys.argv[1]
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    dtypes = sys.argv[3:] or DTYPES
    print(f"{len(os.sched_getaffinity(0))} cores")
    print(f"{'search':49} {'seconds':>9} {'target':>7} {'of cores':>9} {'memory':>8}")
    met = True
    for dtype, (cluster, batch, target, runs, models) in itertools.product(dtypes, CASES):
        if cluster.endswith(only) and (dtype == DTYPES[0] or cluster != "h100-1024"):
            for model in models:
                met = measure(galplan, dtype, runs, model, cluster, batch, AXES, target) and met
            if cluster == "h100-8":
                within = AXES.removesuffix(OFFLOAD)
                met = measure(galplan, dtype, runs, "llama2-7b", cluster, SHORT_BATCH, within, target) and met
                measure(galplan, dtype, runs, "llama2-7b", cluster, SHORT_BATCH, AXES, None)
            if cluster != "h100-1024":
                met = measure(galplan, dtype, runs, "gpt2-xl", cluster, batch, AXES + ",bucket,chunk", None) and met
    sys.exit(0 if met else 1)


main()
