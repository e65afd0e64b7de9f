#!/usr/bin/env python3
"""make bench-strays: how far plans that searches find are from their simulation, over the models and clusters that ship.

Usage: tests/bench/strays.py GALPLAN [CLUSTER | DTYPE]...

The simulation's seconds over the objective's, less one, of the plan that each search returns, by precision: in bf16 (fp16
where a device has no bf16), in which links are ten times as slow beside kernels, and in fp32; on all clusters or on those
named, in all of bf16, fp16, fp32 or those named. One batch: a sample for every device, at least 16. Two searches at a
time; one that takes more than 60 s is stopped. A search takes what its prices are wrong about, which random plans
(tests/property/test_price) do not show. Exit 1 if a search was stopped."""
import concurrent.futures
import json
import os
import sys

from one_search import once

LIMIT_SECONDS = 60
FAR = 0.10  # told one by one: these, or as many of the farthest
TOLD = 10
NARROW = ("bf16", "fp16")  # the first that a device has
DTYPES = (*NARROW, "fp32")
CATALOGUE = os.path.join(os.path.dirname(__file__), "..", "..", "schemas", "catalogue")


def names(kind):
    return sorted(f[:-5] for f in os.listdir(os.path.join(CATALOGUE, kind)) if f.endswith(".json"))


def document_of(cluster):
    with open(os.path.join(CATALOGUE, "clusters", cluster + ".json"), encoding="utf-8") as text:
        return json.load(text)


def dtypes_of(cluster):
    """The narrow precision of a cluster's devices, if there is one, and fp32."""
    device = document_of(cluster)["device"]
    return [*[dtype for dtype in NARROW if f"{dtype}_flops_per_second" in device][:1], "fp32"]


def search(galplan, dtype, model, cluster):
    """The precision, the pair, whether the search was stopped, the printed object (None: no plan fits)."""
    batch = max(16, document_of(cluster)["device_count"])
    arguments = ["--model", model, "--dtype", dtype, "--cluster", cluster, "--batch", str(batch)]
    _, seconds, _, found = once(galplan, arguments, LIMIT_SECONDS)
    return dtype, f"{model} on {cluster}", seconds is None, found


def report(dtype, strays):
    """strays: (share, pair, plan), the farthest first."""
    sizes = sorted(abs(share) for share, _, _ in strays)
    far = sum(size > FAR for size in sizes)
    print(f"{dtype}: {len(sizes)} plans: median {100 * sizes[len(sizes) // 2]:.2f} %, 90th percentile "
          f"{100 * sizes[len(sizes) * 9 // 10]:.2f} %, {far} beyond {100 * FAR:.0f} %")
    for share, pair, plan in strays[:max(far, TOLD)]:
        print(f"{pair:36} {100 * share:>+7.2f} %  P {plan['pp_degree']:<4} m {plan['microbatch_count']:<5}"
              f" gap {100 * plan['optimality_gap']:.2f} %")


def main():
    galplan, words = sys.argv[1], sys.argv[2:]
    dtypes = [word for word in words if word in DTYPES] or list(DTYPES)
    clusters = [word for word in words if word not in DTYPES] or names("clusters")
    unknown = sorted(set(clusters) - set(names("clusters")))
    if unknown:
        sys.exit(f"no such cluster: {', '.join(unknown)}")
    runs = [(dtype, model, cluster) for dtype in dtypes for model in names("models") for cluster in clusters
            if dtype in dtypes_of(cluster)]
    strays, stopped = {dtype: [] for dtype in dtypes}, []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for dtype, pair, was_stopped, plan in pool.map(lambda run: search(galplan, *run), runs):
            stopped += [f"{pair} in {dtype}"] if was_stopped else []
            if plan is not None:
                strays[dtype].append((plan["simulated_seconds"] / plan["objective_seconds"] - 1, pair, plan))
    for dtype, of in strays.items():
        if of:
            report(dtype, sorted(of, key=lambda stray: -abs(stray[0])))
    found = sum(len(of) for of in strays.values())
    print(f"{len(runs)} searches, {len(runs) - found - len(stopped)} without a plan that fits, "
          f"{len(stopped)} stopped{': ' if stopped else ''}{', '.join(stopped)}")
    sys.exit(1 if stopped else 0)


main()
