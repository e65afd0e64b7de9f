#!/usr/bin/env python3
"""make bench-search: the wall time of whole searches on one core, from catalogue names to the written plan, and their memory.

Usage: tests/bench/search.py GALPLAN [RUNS]

Median wall time of RUNS (15) processes, or as many as take 3 seconds (a machine is slow for part of a second, in which
there are fifteen of the shortest), and the largest resident set of any, beside the target; what each found. A search
that takes longer than a minute is stopped and reported as such. Exit 1 if a target is missed."""
import json
import os
import resource
import signal
import statistics
import sys
import tempfile
import time

LIMIT_SECONDS = 60
LEAST_SECONDS = 3
MOST_MEGABYTES = 200
# what is searched, target in milliseconds
PAIRS = [
    (["--model", "gpt2-xl", "--cluster", "h100-8", "--batch", "8:256:8"], 60),
    (["--model", "gpt3-175b", "--cluster", "h100-64", "--batch", "16:512:16"], 200),
    (["--model", "gpt3-175b", "--cluster", "h100-1024", "--batch", "64:2048:64"], 1000),
    (["--model", "t5-large-48", "--cluster", "a100-64", "--batch", "16:512:16"], 500),
    (["--model", "llama2-7b", "--cluster", "h100-8", "--batch", "64"], 20),
]
# Little memory; slow links; both. What they take is said, not judged.
SHORT = [
    (["--model", "llama3-70b", "--cluster", "h100-64", "--batch", "128"], None),
    (["--model", "qwen2-7b", "--cluster", "l4-8", "--batch", "16"], None),
    (["--model", "llama2-13b", "--cluster", "rtx3090-32", "--batch", "64"], None),
]
CASES = [([*search, "--dtype", dtype], target) for dtype, searches in (("bf16", PAIRS + SHORT), ("fp32", PAIRS))
         for search, target in searches]


def run(galplan, arguments, folder):
    """Milliseconds, resident megabytes, the printed object; None for the first if stopped."""
    printed = os.path.join(folder, "out.json")
    files = [(os.POSIX_SPAWN_OPEN, 1, printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
             (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    command = [galplan, "search", "--json", "--jobs", "1", *arguments, "-o", os.path.join(folder, "plan.json")]
    began = time.monotonic()
    child = os.posix_spawn(galplan, command, os.environ, file_actions=files)  # a fork copies this interpreter: 1 ms
    _, status, usage = os.wait4(child, 0)
    took = 1e3 * (time.monotonic() - began)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return None, usage.ru_maxrss / 1024, {}
    if status != 0:
        sys.exit(f"bench-search: {' '.join(arguments)}: exit {status}")
    with open(printed, encoding="utf-8") as text:
        return took, usage.ru_maxrss / 1024, json.load(text)


def run_all(galplan, arguments, runs):
    with tempfile.TemporaryDirectory() as folder:
        results = []
        began = time.monotonic()
        while len(results) < runs or time.monotonic() - began < LEAST_SECONDS:
            results.append(run(galplan, arguments, folder))
    return results


def main():
    galplan = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, resource.RLIM_INFINITY))  # which each process has too
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    missed = False
    print(f"{'search':64} {'median':>10} {'target':>9} {'memory':>9}  {'samples/s':>9} {'gap':>8}")
    for arguments, target in CASES:
        results = run_all(galplan, arguments, runs)
        name = " ".join(a for a in arguments if a not in ("--model", "--cluster", "--dtype"))
        wanted = f"{target:>6} ms" if target else f"{'-':>9}"
        megabytes = max(r[1] for r in results)
        if any(r[0] is None for r in results):
            print(f"{name:64} {'> 60 s':>10} {wanted} {megabytes:>6.0f} MB  MISSED")
            missed = True
            continue
        took = statistics.median(r[0] for r in results)
        found = results[0][2]
        bad = took > (target or took) or megabytes > MOST_MEGABYTES
        missed = missed or bad
        print(f"{name:64} {took:>7.0f} ms {wanted} {megabytes:>6.0f} MB  {found['samples_per_second']:>9.4g} "
              f"{100 * found['optimality_gap']:>6.2f} %{'  MISSED' if bad else ''}")
    sys.exit(1 if missed else 0)


main()
