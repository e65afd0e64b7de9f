"""Predicted against measured seconds of a step with something in the host's memory or on storage, for make
bench-offload-seconds.

Usage: offload_seconds.py BUILD [STEPS [ROUNDS [DIR]]]
One rank, a profile of this machine and of the storage of DIR (a temporary folder). Plans of a GPT of three depths under
every way that blocks may be offloaded, each without and with recompute. All of them are run ROUNDS times (2), one behind
the other, so that a machine whose speed strays does so for every plan; of each the median of all its steps, STEPS a
round (3) behind the first, beside what galplan simulate predicts. Exit 1 if fewer than 30 are within 10 %, or fewer than
half of those with storage.
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
]
LAYERS = [2, 4, 8]
RECOMPUTES = ["none", "full"]
WITHIN, WANTED = 0.10, 30


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
        model = json.loads(Path("tests/demo/model.json").read_text())
        model.update(hidden=512, head_count=8, ffn_hidden=2048, layer_count=LAYERS[0], global_batch_samples=4)
        model["optimizer"].update(warmup_steps=0)
        (folder / "model.json").write_text(json.dumps(model))
        run(build / "galplan", "profile", "--model", folder / "model.json", "--microbatches", 1, "--budget-seconds", 60,
            "--storage", storage, "-q", "-o", self.profile)
        run(build / "galplan", "search", "--model", folder / "model.json", "--profile", self.profile, "--space", "dp",
            "--microbatches", 1, "-o", folder / "base.json")
        self.base = json.loads((folder / "base.json").read_text())

    def write(self, case):
        path = self.folder / "plan.json"
        path.write_text(json.dumps(plan_of(self.base, *case)))
        return path

    def predict(self, case):
        text = run(self.build / "galplan", "simulate", "--json", "--profile", self.profile, self.write(case))
        return json.loads(text)["simulated_seconds"]

    def measure(self, case):
        """Seconds of a round's steps, without the first."""
        log = self.folder / "log"
        run(self.build / "galrun", self.write(case), "--data", "README.md", "--steps", self.steps + 1,
            "--evaluate-batches", 1, "--storage", self.storage, "-q", "--log", log)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        log.unlink()
        return [line["seconds"] for line in lines if line.get("event") == "step"][1:]


def report(cases, predicted, measured):
    """Prints a row for each; true if enough are near."""
    near, near_stored, stored, errors = 0, 0, 0, []
    print(f"{'layers':>6} {'recompute':>9} {'offload':>75} {'predicted s':>12} {'measured s':>11} {'error':>8}")
    for case, seconds, steps in zip(cases, predicted, measured):
        layers, recompute, offload = case
        error = seconds / statistics.median(steps) - 1
        stores = any(key.startswith("storage") for key in offload or {})
        is_near = abs(error) <= WITHIN
        near, stored, near_stored = near + is_near, stored + stores, near_stored + (is_near and stores)
        errors.append(abs(error))
        print(f"{layers:6} {recompute:>9} {json.dumps(offload or {}):>75} {seconds:12.4f} "
              f"{statistics.median(steps):11.4f} {100 * error:7.1f}%")
    print(f"{near} of {len(cases)} plans within {100 * WITHIN:.0f} %, of {stored} with storage {near_stored}, "
          f"median error {100 * statistics.median(errors):.1f} %")
    return near >= WANTED and 2 * near_stored >= stored


def main():
    build = Path(sys.argv[1])
    steps, rounds = [int(word) for word in sys.argv[2:4]] + [3, 2][len(sys.argv[2:4]):]
    cases = [(layers, recompute, offload) for layers in LAYERS for recompute in RECOMPUTES for offload in OFFLOADS]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(build, Path(folder), steps, sys.argv[4] if len(sys.argv) > 4 else folder)
        predicted = [bench.predict(case) for case in cases]
        measured = [[] for _ in cases]
        for _ in range(rounds):
            for seconds, case in zip(measured, cases):
                seconds += bench.measure(case)
        sys.exit(0 if report(cases, predicted, measured) else 1)


main()
