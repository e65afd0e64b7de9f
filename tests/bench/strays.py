#!/usr/bin/env python3
"""make bench-strays: how far plans that searches find are from their simulation, over the models and clusters that ship.

Usage: tests/bench/strays.py GALPLAN [CLUSTER...]

The simulation's seconds over the objective's, less one, of the plan that each search returns; on all clusters or on those
named. One batch: a sample for every device, at least 16. Two searches at a time; one that takes more than 60 s is
stopped. A search takes what its prices are wrong about, which random plans (tests/property/test_price) do not show. Exit
1 if a search was stopped."""
import concurrent.futures
import json
import os
import sys

from one_search import once

LIMIT_SECONDS = 60
FAR = 0.10  # told one by one: these, or as many of the farthest
TOLD = 10
CATALOGUE = os.path.join(os.path.dirname(__file__), "..", "..", "schemas", "catalogue")


def names(kind):
    return sorted(f[:-5] for f in os.listdir(os.path.join(CATALOGUE, kind)) if f.endswith(".json"))


def devices_of(cluster):
    with open(os.path.join(CATALOGUE, "clusters", cluster + ".json"), encoding="utf-8") as text:
        return json.load(text)["device_count"]


def search(galplan, model, cluster):
    """The pair, whether the search was stopped, the printed object (None: no plan fits)."""
    batch = max(16, devices_of(cluster))
    _, seconds, _, found = once(galplan, ["--model", model, "--cluster", cluster, "--batch", str(batch)], LIMIT_SECONDS)
    return f"{model} on {cluster}", seconds is None, found


def report(strays):
    """strays: (share, pair, plan), the farthest first."""
    sizes = sorted(abs(share) for share, _, _ in strays)
    far = sum(size > FAR for size in sizes)
    print(f"{len(sizes)} plans: median {100 * sizes[len(sizes) // 2]:.2f} %, 90th percentile "
          f"{100 * sizes[len(sizes) * 9 // 10]:.2f} %, {far} beyond {100 * FAR:.0f} %")
    for share, pair, plan in strays[:max(far, TOLD)]:
        print(f"{pair:36} {100 * share:>+7.2f} %  P {plan['pp_degree']:<4} m {plan['microbatch_count']:<5}"
              f" gap {100 * plan['optimality_gap']:.2f} %")


def main():
    galplan, clusters = sys.argv[1], sys.argv[2:] or names("clusters")
    unknown = sorted(set(clusters) - set(names("clusters")))
    if unknown:
        sys.exit(f"no such cluster: {', '.join(unknown)}")
    pairs = [(model, cluster) for model in names("models") for cluster in clusters]
    strays, stopped = [], []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for pair, was_stopped, plan in pool.map(lambda p: search(galplan, *p), pairs):
            stopped += [pair] if was_stopped else []
            if plan is not None:
                strays.append((plan["simulated_seconds"] / plan["objective_seconds"] - 1, pair, plan))
    if strays:
        report(sorted(strays, key=lambda stray: -abs(stray[0])))
    print(f"{len(pairs)} pairs, {len(pairs) - len(strays) - len(stopped)} without a plan that fits, "
          f"{len(stopped)} stopped{': ' if stopped else ''}{', '.join(stopped)}")
    sys.exit(1 if stopped else 0)


main()
