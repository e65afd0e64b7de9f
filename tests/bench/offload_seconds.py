"""Predicted against measured seconds of a step with something in the host's memory or on storage, for make
bench-offload-seconds.

Usage: offload_seconds.py BUILD [STEPS [ROUNDS [DIR]]]
One rank, and the storage of DIR (a temporary folder). Plans of a GPT of three depths under every way that blocks may be
offloaded, each without and with recompute. In each of ROUNDS rounds (3) the machine is profiled, then all plans are
predicted by that profile and run, STEPS steps behind the first (3), whose median counts: so a machine, or a disk, that
strays does so for both. A plan's error is the median of its rounds'. Its spread is how far the longest of its rounds is
above the shortest; no prediction is nearer than a plan is to itself, so what is asked of plans with storage is asked of
those that are steady: whose spread is within 10 %, too.
Exit 1 if fewer than 30 plans are within 10 %, or fewer than half of those with storage that are steady, or if none is.
"""
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from unclaimed import without_claims

OFFLOADS = [
    None,
    {"optimizer_percent": 50},
    {"optimizer_percent": 100},
    {"optimizer_percent": 100, "parameters_percent": 100},
    {"activations_percent": 50},
    {"activations_percent": 100},
    {"activations_percent": 100, "storage_activations_percent": 50},
    {"activations_percent": 100, "storage_activations_percent": 100},
    {"optimizer_percent": 100, "activations_percent": 100},
    {"optimizer_percent": 100, "parameters_percent": 100, "activations_percent": 100},
    {"optimizer_percent": 100, "storage_percent": 50},
    {"optimizer_percent": 100, "storage_percent": 100},
    {"optimizer_percent": 100, "storage_percent": 100, "parameters_percent": 100},
    {"optimizer_percent": 100, "storage_percent": 100, "parameters_percent": 100, "storage_parameters_percent": 100},
]
LAYERS = [2, 4, 8]
RECOMPUTES = ["none", "full"]
WITHIN, WANTED = 0.10, 30
COMPUTE, STORAGE = 0, 3  # activities of a profile's slowdowns


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def plan_of(base, layers, recompute, offload):
    plan = without_claims(base)
    plan["model"]["layer_count"] = layers
    plan["prefetch_depth"] = 2
    strategy = {"axes": [], "zero_stage": 0, "sequence_parallel": False, "recompute": recompute}
    if offload is not None:
        strategy["offload"] = offload
    plan["stages"] = [{"predicted_bytes": 0, "runs": [{"block_count": 2 * layers + 2, "strategy": strategy}]}]
    return plan


class Bench:
    def __init__(self, build, folder, steps, storage):
        self.build, self.folder, self.steps, self.storage = build, folder, steps, storage
        self.profile = folder / "profile.json"
        self.model = folder / "model.json"
        model = json.loads(Path("tests/demo/model.json").read_text())
        model.update(hidden=512, head_count=8, ffn_hidden=2048, layer_count=LAYERS[0], global_batch_samples=4)
        model["optimizer"].update(warmup_steps=0)
        self.model.write_text(json.dumps(model))

    def measure_machine(self):
        """Says what it finds of the storage; the plans are those of this profile from now on."""
        run(self.build / "galplan", "profile", "--model", self.model, "--microbatches", 1, "--budget-seconds", 60,
            "--storage", self.storage, "-q", "-o", self.profile)
        run(self.build / "galplan", "search", "--model", self.model, "--profile", self.profile, "--space", "dp",
            "--microbatches", 1, "-o", self.folder / "base.json")
        self.base = json.loads((self.folder / "base.json").read_text())
        profile = json.loads(self.profile.read_text())
        device, slowdown = profile["cluster"]["device"], profile["slowdown"]
        ways = ", ".join(f"{way} {device[f'storage_{way}_bytes_per_second'] / 1e6:.0f} MB/s and "
                         f"{device[f'storage_{way}_latency_seconds'] * 1e3:.2f} ms" for way in ["read", "write"])
        print(f"storage: {ways}; {slowdown[STORAGE][STORAGE]:.2f} times as long both at once, "
              f"{slowdown[STORAGE][COMPUTE]:.2f} beside kernels, they {slowdown[COMPUTE][STORAGE]:.2f}", flush=True)

    def write(self, case):
        path = self.folder / "plan.json"
        path.write_text(json.dumps(plan_of(self.base, *case)))
        return path

    def predict(self, case):
        text = run(self.build / "galplan", "simulate", "--json", "--profile", self.profile, self.write(case))
        return json.loads(text)["simulated_seconds"]

    def measure(self, case):
        """The median of a round's steps, without the first."""
        log = self.folder / "log"
        run(self.build / "galrun", self.write(case), "--data", "README.md", "--steps", self.steps + 1,
            "--evaluate-batches", 1, "--storage", self.storage, "-q", "--log", log)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        log.unlink()
        return statistics.median([line["seconds"] for line in lines if line.get("event") == "step"][1:])


def report(cases, predicted, measured):
    """Prints a row for each, [case][round] seconds; true if enough are near."""
    near, stored, errors, steady_stored = 0, 0, [], []
    print(f"{'layers':>6} {'recompute':>9} {'offload':>110} {'predicted s':>12} {'measured s':>11} {'spread':>7} {'error':>8}")
    for case, expected, seconds in zip(cases, predicted, measured):
        layers, recompute, offload = case
        error = statistics.median(e / s - 1 for e, s in zip(expected, seconds))
        spread = max(seconds) / min(seconds) - 1
        near += abs(error) <= WITHIN
        errors.append(abs(error))
        stores = any(key.startswith("storage") for key in offload or {})
        stored += stores
        if stores and spread <= WITHIN:
            steady_stored.append(abs(error) <= WITHIN)
        print(f"{layers:6} {recompute:>9} {json.dumps(offload or {}):>110} {statistics.median(expected):12.4f} "
              f"{statistics.median(seconds):11.4f} {100 * spread:6.1f}% {100 * error:7.1f}%")
    print(f"{near} of {len(cases)} plans within {100 * WITHIN:.0f} %, of {stored} with storage {len(steady_stored)} "
          f"steady and {sum(steady_stored)} of these within, median error {100 * statistics.median(errors):.1f} %")
    return near >= WANTED and len(steady_stored) > 0 and 2 * sum(steady_stored) >= len(steady_stored)


def main():
    build = Path(sys.argv[1])
    steps, rounds = [int(word) for word in sys.argv[2:4]] + [3, 3][len(sys.argv[2:4]):]
    cases = [(layers, recompute, offload) for layers in LAYERS for recompute in RECOMPUTES for offload in OFFLOADS]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(build, Path(folder), steps, sys.argv[4] if len(sys.argv) > 4 else folder)
        predicted, measured = [[] for _ in cases], [[] for _ in cases]
        for _ in range(rounds):
            bench.measure_machine()
            for case, expected, seconds in zip(cases, predicted, measured):
                expected.append(bench.predict(case))
                seconds.append(bench.measure(case))
        sys.exit(0 if report(cases, predicted, measured) else 1)


main()
