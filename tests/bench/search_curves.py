#!/usr/bin/env python3
"""make bench-search-curves: how the time of a search grows, as Figure 5 of Galvatron-BMW asks: by layers, by memory, by
the number of strategies.

Usage: tests/bench/search_curves.py GALPLAN [RUNS]

Processor seconds (one thread) of `galplan search` as a process, the least of RUNS (3), and the largest resident set. The
slope in layers is that of log seconds over log layers, by least squares. Exit 1 if a target is missed: 1,024 layers on 64
devices in 2 s, slope 1.6."""
import json
import math
import os
import statistics
import sys
import tempfile

from one_search import once

LIMIT_SECONDS = 60
MOST_SECONDS, MOST_SLOPE = 2.0, 1.6
LAYERS = [32, 64, 128, 256, 512, 1024]
GIB = [8, 12, 16, 20, 24, 32, 40, 80]
SPACES = ["dp,tp", "dp,zero3,tp", "dp,zero2,zero3,tp", "dp,zero3,tp,recompute", "dp,sdp,tp,recompute", "dp,sdp,tp,sp",
          "dp,sdp,tp,sp,recompute", "dp,sdp,tp,sp,recompute,selective"]


def measure(galplan, runs, label, arguments):
    """Prints the row; returns the least seconds, None if any was stopped."""
    results = [once(galplan, [*arguments, "--jobs", "1"], LIMIT_SECONDS) for _ in range(runs)]
    megabytes = max(r[2] for r in results)
    if any(r[0] is None for r in results):
        print(f"{label:>36} {'> ' + str(LIMIT_SECONDS):>9} s {megabytes:>5.0f} MB", flush=True)
        return None
    seconds = min(r[1] for r in results)
    found = results[0][3]
    said = f"gap {100 * found['optimality_gap']:.2f} %, P {found['pp_degree']}" if found else "no plan fits"
    print(f"{label:>36} {seconds:>9.3f} s {megabytes:>5.0f} MB  {said}", flush=True)
    return seconds


def slope_of(points):
    x = [math.log(layers) for layers, _ in points]
    y = [math.log(seconds) for _, seconds in points]
    return statistics.linear_regression(x, y).slope


def with_layers(folder, catalogue, layers):
    """The catalogue's model with so many layers, as a file."""
    with open(catalogue, encoding="utf-8") as text:
        model = json.load(text)
    model["layer_count"] = layers
    path = os.path.join(folder, "model.json")
    with open(path, "w", encoding="utf-8") as text:
        json.dump(model, text)
    return path


def by_layers(galplan, runs, models):
    print("layers: gpt2-xl with so many, a100-64, --batch 64")
    points = []
    for layers in LAYERS:
        with tempfile.TemporaryDirectory() as folder:
            model = with_layers(folder, os.path.join(models, "gpt2-xl.json"), layers)
            points.append((layers, measure(galplan, runs, str(layers),
                                           ["--model", model, "--cluster", "a100-64", "--batch", "64"])))
    if any(seconds is None for _, seconds in points):
        return False
    slope = slope_of(points)
    print(f"slope on log axes {slope:.2f} (at most {MOST_SLOPE}); {LAYERS[-1]} layers {points[-1][1]:.2f} s (at most "
          f"{MOST_SECONDS:.0f} s)")
    return slope <= MOST_SLOPE and points[-1][1] <= MOST_SECONDS


def main():
    galplan = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    models = os.path.join(os.path.dirname(__file__), "..", "..", "schemas", "catalogue", "models")
    met = by_layers(galplan, runs, models)
    print("\nmemory per device: llama2-7b, a100-8, --batch 64")
    for gib in GIB:
        measure(galplan, runs, f"{gib} GiB", ["--model", "llama2-7b", "--cluster", "a100-8", "--batch", "64", "--memory",
                                              f"{gib}GiB"])
    print("\nstrategies: llama2-7b, a100-8, --batch 64")
    for space in SPACES:
        measure(galplan, runs, space, ["--model", "llama2-7b", "--cluster", "a100-8", "--batch", "64", "--space", space])
    sys.exit(0 if met else 1)


main()
