"""The largest model that trains under a limit of the device's memory, by what lies in the host's, for make bench-offload.

Usage: offload.py BUILD [LIMIT_MIB [STEPS]]
One rank. A GPT of fixed width grows by layers as long as the arena of its program is within the limit (256 MiB); of each
row the largest one is trained for STEPS steps (3). The arena is what the device's memory holds, to the byte; the host's
memory is apart from it, so the copies are real. Seconds are the median step's; those of a layer let rows be compared.

Behind it, of a model that does not fit whole: an optimizer that lies on the host as far as it must, against all of it
there (Colossal-AI section III-B and Figure 17, whose gain on 8 GPUs stands beside it), ROUNDS times in turn; and what
offload, recompute and both together give by search. Exit 1 if both together are slower than either alone.
"""
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from unclaimed import without_claims

ROWS = [
    ("all on the device", "none", None),
    ("recompute", "full", None),
    ("optimizer on the host", "none", {"optimizer_percent": 100}),
    ("optimizer and weights on the host", "none", {"optimizer_percent": 100, "parameters_percent": 100}),
    ("optimizer on the host, recompute", "full", {"optimizer_percent": 100}),
    ("optimizer and weights on the host, recompute", "full", {"optimizer_percent": 100, "parameters_percent": 100}),
    ("activations on the host", "none", {"activations_percent": 100}),
    ("activations on the host, recompute", "full", {"activations_percent": 100}),
    ("all on the host, recompute", "full", {"optimizer_percent": 100, "parameters_percent": 100, "activations_percent": 100}),
]
LAYERS_MAX = 512
ROUNDS = 3
PAPER_GAIN = 2.33  # of adaptive hybrid Adam over all parameters updated by the CPU, 8 GPUs


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class Bench:
    def __init__(self, build, folder):
        self.build, self.folder = build, Path(folder)
        model = json.loads(Path("tests/demo/model.json").read_text())
        model.update(hidden=512, head_count=8, ffn_hidden=2048, layer_count=1, global_batch_samples=4)
        model["optimizer"].update(warmup_steps=0)
        (self.folder / "model.json").write_text(json.dumps(model))
        run(build / "galplan", "search", "--model", self.folder / "model.json", "--cluster",
            "tests/fixtures/valid/cluster_one_device.json", "--memory", "16GiB", "--space", "dp", "--batch", 4,
            "--microbatches", 1, "-o", self.folder / "base.json")
        self.base = json.loads((self.folder / "base.json").read_text())

    def write(self, layers, recompute, offload):
        """A plan of so many layers: one run of blocks, all alike but for the ends, which have nothing to redo."""
        plan = without_claims(self.base)
        plan["model"]["layer_count"] = layers
        plan["prefetch_depth"] = 2
        strategy = {"axes": [], "zero_stage": 0, "sequence_parallel": False, "recompute": recompute}
        if offload is not None:
            strategy["offload"] = offload
        plan["stages"] = [{"predicted_bytes": 0, "runs": [{"block_count": 2 * layers + 2, "strategy": strategy}]}]
        path = self.folder / "plan.json"
        path.write_text(json.dumps(plan))
        return path

    def bytes_of(self, layers, recompute, offload):
        text = run(self.build / "galplan", "simulate", "--json", self.write(layers, recompute, offload))
        stage = json.loads(text)["stages"][0]
        return stage["arena_bytes"], stage.get("host_bytes", 0)

    def largest(self, limit_bytes, recompute, offload):
        low, high = 0, 1
        while high <= LAYERS_MAX and self.bytes_of(high, recompute, offload)[0] <= limit_bytes:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.bytes_of(middle, recompute, offload)[0] <= limit_bytes
            low, high = (middle, high) if fits else (low, middle)
        return low

    def least_percent(self, limit_bytes, layers):
        """Of the optimizer, that must be on the host."""
        return next(p for p in range(101) if self.bytes_of(layers, "none", {"optimizer_percent": p} if p else None)[0]
                    <= limit_bytes)

    def samples_per_second(self, limit_bytes, layers, space):
        """By the search alone; 0: no plan fits."""
        model = json.loads((self.folder / "model.json").read_text())
        (self.folder / "deep.json").write_text(json.dumps(dict(model, layer_count=layers)))
        done = subprocess.run([self.build / "galplan", "search", "--json", "--model", self.folder / "deep.json",
                               "--cluster", "tests/fixtures/valid/cluster_one_device.json", "--memory",
                               str(limit_bytes), "--space", space, "--microbatches", "1", "--gap", "0"],
                              capture_output=True, text=True)
        return json.loads(done.stdout)["samples_per_second"] if done.returncode == 0 else 0.0

    def train(self, layers, recompute, offload, steps):
        log = self.folder / "log"
        run(self.build / "galrun", self.write(layers, recompute, offload), "--data", "README.md", "--steps", steps + 1,
            "--evaluate-batches", 1, "-q", "--log", log)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        seconds = [line["seconds"] for line in lines if line.get("event") == "step"]
        return statistics.median(seconds[1:])


def compare_hybrid(bench, limit_bytes, steps):
    """An optimizer on the host as far as it must be, against all of it."""
    whole, offloaded = (bench.largest(limit_bytes, "none", how) for how in (None, {"optimizer_percent": 100}))
    layers = (whole + offloaded) // 2
    percent = bench.least_percent(limit_bytes, layers)
    seconds = {percent: [], 100: []}
    for _ in range(ROUNDS):
        for on_host, of in seconds.items():
            of.append(bench.train(layers, "none", {"optimizer_percent": on_host}, steps))
    hybrid, all_on_host = (statistics.median(of) for of in seconds.values())
    print(f"\n{layers} layers, optimizer: {percent} % on the host {hybrid:.3f} s a step, all of it {all_on_host:.3f} s: "
          f"{all_on_host / hybrid:.2f} x (Figure 17: {PAPER_GAIN} x on 8 GPUs; here both sides are this processor)")
    return layers


def compare_spaces(bench, limit_bytes, layers):
    """True if offload and recompute together are no slower than either alone."""
    found = {space: bench.samples_per_second(limit_bytes, layers, "dp," + space)
             for space in ("offload", "recompute", "recompute,offload")}
    print("by search, samples/s: " + ", ".join(f"{space} {rate:.4g}" for space, rate in found.items()))
    return found["recompute,offload"] >= max(found.values())


def main():
    build = Path(sys.argv[1])
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(build, folder)
        print(f"one rank, device arena of {limit} MiB; {steps} steps timed")
        print(f"{'':<46} layers   parameters   arena MiB   host MiB   s per step   s per layer")
        for name, recompute, offload in ROWS:
            layers = bench.largest(limit << 20, recompute, offload)
            arena, host = bench.bytes_of(layers, recompute, offload)
            seconds = bench.train(layers, recompute, offload, steps)
            parameters = layers * (12 * 512 * 512 + 13 * 512) + (256 + 128) * 512
            print(f"{name:<46} {layers:6} {parameters / 1e6:10.1f} M {arena / 2**20:11.1f} {host / 2**20:10.1f} "
                  f"{seconds:12.3f} {seconds / layers:13.4f}", flush=True)
        layers = compare_hybrid(bench, limit << 20, steps)
        sys.exit(0 if compare_spaces(bench, limit << 20, layers) else 1)


main()
