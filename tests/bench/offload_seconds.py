"""Predicted against measured seconds of a step with something in the host's memory, for make bench-offload-seconds.

Usage: offload_seconds.py BUILD [STEPS]
One rank, a profile of this machine. Plans of a GPT of three depths under every way that blocks may be offloaded, each
without and with recompute; of each the median of STEPS steps (5) beside what galplan simulate predicts. Exit 1 if fewer
than 30 are within 10 %.
"""
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

OFFLOADS = [
    None,
    {"optimizer_percent": 50},
    {"optimizer_percent": 100},
    {"optimizer_percent": 100, "parameters": True},
    {"activations": True},
    {"optimizer_percent": 100, "activations": True},
    {"optimizer_percent": 100, "parameters": True, "activations": True},
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
    plan = json.loads(json.dumps(base))
    plan.pop("certificate", None)
    plan["model"]["layer_count"] = layers
    plan["prefetch_depth"] = 2
    for key in "objective_seconds", "simulated_seconds", "lower_bound_seconds":
        plan[key] = 0
    strategy = {"axes": [], "zero_stage": 0, "sequence_parallel": False, "recompute": recompute}
    if offload is not None:
        strategy["offload"] = offload
    plan["stages"] = [{"predicted_bytes": 0, "runs": [{"block_count": 2 * layers + 2, "strategy": strategy}]}]
    return plan


def main():
    build = Path(sys.argv[1])
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = json.loads(Path("tests/demo/model.json").read_text())
        model.update(hidden=512, head_count=8, ffn_hidden=2048, layer_count=LAYERS[0], global_batch_samples=4)
        model["optimizer"].update(warmup_steps=0)
        (folder / "model.json").write_text(json.dumps(model))
        profile = folder / "profile.json"
        run(build / "galplan", "profile", "--model", folder / "model.json", "--microbatches", 1, "--budget-seconds", 60,
            "-q", "-o", profile)
        run(build / "galplan", "search", "--model", folder / "model.json", "--profile", profile, "--space", "dp",
            "--microbatches", 1, "-o", folder / "base.json")
        base = json.loads((folder / "base.json").read_text())
        count, near, errors = 0, 0, []
        print(f"{'layers':>6} {'recompute':>9} {'offload':>40} {'predicted s':>12} {'measured s':>11} {'error':>8}")
        for layers in LAYERS:
            for recompute in RECOMPUTES:
                for offload in OFFLOADS:
                    path, log = folder / "plan.json", folder / "log"
                    path.write_text(json.dumps(plan_of(base, layers, recompute, offload)))
                    said = json.loads(run(build / "galplan", "simulate", "--json", "--profile", profile, path))
                    run(build / "galrun", path, "--data", "README.md", "--steps", steps + 1, "--evaluate-batches", 1,
                        "-q", "--log", log)
                    seconds = [line["seconds"] for line in map(json.loads, log.read_text().splitlines())
                               if line.get("event") == "step"]
                    log.unlink()
                    measured, predicted = statistics.median(seconds[1:]), said["simulated_seconds"]
                    error = predicted / measured - 1
                    count, near = count + 1, near + (abs(error) <= WITHIN)
                    errors.append(abs(error))
                    print(f"{layers:6} {recompute:>9} {json.dumps(offload or {}):>40} {predicted:12.4f} "
                          f"{measured:11.4f} {100 * error:7.1f}%", flush=True)
        print(f"{near} of {count} plans within {100 * WITHIN:.0f} %, median error {100 * statistics.median(errors):.1f} %")
        sys.exit(0 if near >= WANTED else 1)


main()
