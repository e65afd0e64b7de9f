#!/usr/bin/env python3
"""test_trace.py BUILD: what galrun records of a step. --trace has the events that galplan simulate --trace has, rank
for stage; the log's final record adds up to it; with --no-overlap nothing runs beside anything else, and the bits of
the result are the same."""
import collections
import filecmp
import json
import os
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
plans = "tests/numerics/plans"
settings = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")
ranks, streams = 4, ["compute", "tensor", "gather", "reduce", "send_f", "recv_f", "send_b", "recv_b"]
failed = False


def verdict(what, good, why=""):
    global failed
    failed = failed or not good
    print(("ok " if good else "not ok ") + what)
    if not good and why:
        print("#", why)


def events_of(path):
    with open(path) as file:
        return [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]


def what(event):
    args = event["args"]
    return (event["tid"], event["name"], event["cat"], args["fragment"], args["microbatch"], args["block"])


def by_process(events):
    counted = collections.defaultdict(collections.Counter)
    for event in events:
        counted[event["pid"]][what(event)] += 1
    return counted


def run(name, folder, data, *options):
    """Two steps: the first is left out of the means, so the record is that of the step in the trace."""
    folder = os.path.join(folder, "".join(options) or "overlap")
    os.mkdir(folder)
    log, trace, save = (os.path.join(folder, f) for f in ("log", "trace", "save"))
    subprocess.run([build + "/galrun", f"{plans}/{name}.json", "--data", data, "--np", str(ranks), "--steps", "2", "-q",
                    "--evaluate-batches", "1", "--log", log, "--trace", trace, "--save", save, *options],
                   check=True, stdout=subprocess.DEVNULL, env=settings, timeout=120)
    with open(log) as file:
        final = json.loads(file.readlines()[-1])
    return events_of(trace), final, save


def overlapping(events, tids):
    """The first two spans of one rank and these streams that overlap."""
    for rank in range(ranks):
        spans = sorted((e["ts"], e["ts"] + e["dur"], what(e)) for e in events if e["pid"] == rank and e["tid"] in tids)
        for before, after in zip(spans, spans[1:]):
            if after[0] < before[1] - 1e-3:  # a nanosecond: microseconds are written
                return rank, before, after
    return None


def adds_up(final, events):
    """The largest relative difference of a stream's seconds in flight to its spans; and the shares are shares."""
    worst = 0.0
    for tid, stream in enumerate(streams[1:], start=1):
        seconds = sum(e["dur"] for e in events if e["tid"] == tid) * 1e-6 / ranks
        record = final["streams"].get(stream, {"in_flight_seconds": 0.0, "exposed_seconds": 0.0, "exposed_share": 0.0})
        if not 0.0 <= record["exposed_seconds"] <= record["in_flight_seconds"] * (1 + 1e-6):
            return 1.0
        worst = max(worst, abs(seconds - record["in_flight_seconds"]) / max(seconds, 1e-9))
    seconds = sum(e["dur"] for e in events if e["tid"] == 0) * 1e-6 / ranks
    return max(worst, abs(seconds - final["compute_seconds"]) / seconds)


def check(name, folder, data, communicators):
    simulated = os.path.join(folder, "simulated")
    subprocess.run([build + "/galplan", "simulate", f"{plans}/{name}.json", "--trace", simulated], check=True,
                   stdout=subprocess.DEVNULL, env=settings)
    stages = by_process(events_of(simulated))
    events, final, save = run(name, folder, data)
    traced = by_process(events)
    devices = ranks // len(stages)
    verdict(f"{name}: a rank's events are those of its stage as simulated",
            len(traced) == ranks and all(traced[r] == stages[r // devices] for r in range(ranks)))
    clash = next((c for c in (overlapping(events, {t}) for t in range(len(streams))) if c), None)
    verdict(f"{name}: a stream does one thing at a time", clash is None, clash)
    # The record has 9 digits, and time stamps of microseconds lose 1e-4 of a nanosecond.
    error = adds_up(final, events)
    verdict(f"{name}: the final record adds up to the trace", error < 1e-6, error)
    verdict(f"{name}: communicators are counted", final["communicators"] == communicators, final["communicators"])

    events, final, saved = run(name, folder, data, "--no-overlap")
    clash = overlapping(events, range(4))
    verdict(f"{name}: --no-overlap: kernels and collectives one at a time", clash is None, clash)
    verdict(f"{name}: --no-overlap: collectives are wholly exposed",
            all(final["streams"].get(s, {"exposed_share": 1.0})["exposed_share"] == 1.0 for s in streams[1:4]), final)
    step = "step-00000002"
    files = sorted(os.listdir(os.path.join(save, step)))
    same = filecmp.cmpfiles(os.path.join(save, step), os.path.join(saved, step), files, shallow=False)[0]
    verdict(f"{name}: --no-overlap gives the same bits", len(files) > ranks and sorted(same) == files, files)


with tempfile.TemporaryDirectory() as scratch:
    text = os.path.join(scratch, "text")
    with open(text, "w") as out:
        out.write("".join(f"{i} bottles, {i * i} glasses\n" for i in range(1500)))
    # Both: all ranks twice, for control and for the norm. zero3-pp2: ZeRO's pair for gathers and for reductions, the
    # two copies of the tied table, a transfer each way. tp2-dp2: TP's pair, DP's pair.
    for plan, count in (("zero3-pp2", 7), ("tp2-dp2", 4)):
        folder = os.path.join(scratch, plan)
        os.mkdir(folder)
        check(plan, folder, text, count)
    folder = os.path.join(scratch, "none")
    os.mkdir(folder)
    path = os.path.join(folder, "no", "such", "folder")
    result = subprocess.run([build + "/galrun", f"{plans}/serial.json", "--data", text, "--steps", "1000000", "--trace",
                             path], capture_output=True, text=True, env=settings, timeout=60)
    verdict("a trace that cannot be written stops the run before it trains",
            result.returncode == 4 and path in result.stderr, result.stderr)
sys.exit(failed)
