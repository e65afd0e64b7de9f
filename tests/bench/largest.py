"""The largest model that two ranks train under limits of a device's and a host's memory, for make bench-largest.

Usage: largest.py BUILD [DEVICE_MIB [HOST_MIB [STEPS]]]
A GPT of fixed width grows by layers; bytes of a parameter on a device shrink from row to row: replicated 16 of fp32; the
optimizer sharded (ZeRO-1) 12; gradients in the place of weights 10, beside masters (of ZeRO-3 in fp32 that would gain
nothing: the master takes what the gradient took); all sharded in chunks (ZeRO-3) 8; the optimizer in the host's memory 4;
weights there, too, 2, of 8 there; moments on storage, 4 there. Of each row the largest model within the limits (16 and 32
MiB) is trained for STEPS steps (2), what galrun says it holds in all three places is compared with the plan, and of one
layer more galrun, under the same limits, must refuse the plan. Exit 1 unless every row is larger than the one before.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from unclaimed import without_claims

HIDDEN, HEADS, LENGTH, LAYERS_MAX, NO_MEMORY = 128, 4, 128, 512, 4
REPLICATED = {"axes": [{"kind": "dp", "degree": 2}], "zero_stage": 0}
OPTIMIZER = {"axes": [{"kind": "sdp", "degree": 2}], "zero_stage": 1}
CHUNKS = {"axes": [{"kind": "sdp", "degree": 2}], "zero_stage": 3, "shard_unit": "chunk",
          "chunk_elements": 4 * HIDDEN * HIDDEN + 4 * HIDDEN}  # the largest matrix of a block
ROWS = [
    ("replicated", REPLICATED, False, None),
    ("optimizer sharded", OPTIMIZER, False, None),
    ("gradients in the place of weights", OPTIMIZER, True, None),
    ("all in chunks", CHUNKS, False, None),
    ("optimizer on the host", CHUNKS, False, {"optimizer_percent": 100}),
    ("weights on the host, too", CHUNKS, False, {"optimizer_percent": 100, "parameters_percent": 100}),
    ("moments on storage", CHUNKS, False, {"optimizer_percent": 100, "storage_percent": 100, "parameters_percent": 100}),
]
PLACES = [("of it arena", "arena_bytes"), ("in the host's", "host_bytes"), ("on storage", "storage_bytes")]


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class Bench:
    def __init__(self, build, folder, device_mib, host_mib):
        self.build, self.folder = build, Path(folder)
        self.device, self.host = device_mib << 20, host_mib << 20
        model = json.loads(Path("tests/demo/model.json").read_text())
        model.update(hidden=HIDDEN, head_count=HEADS, ffn_hidden=4 * HIDDEN, sequence_length=LENGTH, layer_count=1,
                     global_batch_samples=2, tied_embeddings=False)
        model["optimizer"].update(warmup_steps=0)
        cluster = json.loads(Path("tests/fixtures/valid/cluster_one_device.json").read_text())
        cluster["device_count"] = cluster["levels"][0]["span_devices"] = 2
        (self.folder / "model.json").write_text(json.dumps(model))
        (self.folder / "cluster.json").write_text(json.dumps(cluster))
        run(build / "galplan", "search", "--model", self.folder / "model.json", "--cluster",
            self.folder / "cluster.json", "--space", "dp", "--microbatches", 1, "--pp", 1, "-o",
            self.folder / "base.json")
        self.base = json.loads((self.folder / "base.json").read_text())

    def write(self, layers, strategy, reuses, offload):
        plan = without_claims(self.base)
        plan["model"]["layer_count"] = layers
        plan.update(prefetch_depth=2, fixed_bytes=0)
        if reuses:
            plan["gradient_reuses_parameter"] = True
        strategy = dict(strategy, sequence_parallel=False, recompute="full")
        if offload is not None:
            strategy["offload"] = offload
        plan["stages"] = [{"predicted_bytes": 0, "runs": [{"block_count": 2 * layers + 2, "strategy": strategy}]}]
        self.plan = self.folder / "plan.json"
        self.plan.write_text(json.dumps(plan))
        stage = json.loads(run(self.build / "galplan", "simulate", "--json", self.plan))["stages"][0]
        bytes_of = {key: stage.get(key, 0) for _, key in PLACES}
        plan["stages"][0].update(predicted_bytes=bytes_of["arena_bytes"])
        for key in "host_bytes", "storage_bytes":
            if bytes_of[key] > 0:
                plan["stages"][0]["predicted_" + key] = bytes_of[key]
        self.plan.write_text(json.dumps(plan))
        return bytes_of

    def fits(self, layers, *row):
        taken = self.write(layers, *row)
        return taken["arena_bytes"] <= self.device and taken["host_bytes"] <= self.host

    def largest(self, *row):
        low, high = 0, 1
        while high <= LAYERS_MAX and self.fits(high, *row):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle, *row) else (low, middle)
        return low

    def train(self, steps):
        """The plan that was written last, under the limits."""
        words = [self.build / "galrun", "--np", 2, self.plan, "--data", "README.md", "--steps", steps,
                 "--evaluate-batches", 1, "--memory", self.device, "--host-memory", self.host, "--storage", self.folder,
                 "--timeout", 300]
        return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def held(text):
    """What galrun says of each place: planned and measured, as printed."""
    found = {}
    for name, key in PLACES:
        line = re.search(rf"^ *{re.escape(name)} +(\S+) +(\S+)", text, re.MULTILINE)
        if line is not None:
            found[key] = line.groups()
    return found


def try_row(bench, row, steps):
    """Layers, bytes, and what is wrong with the row."""
    layers = bench.largest(*row)
    taken = bench.write(layers, *row)
    done = bench.train(steps)
    wrong = [] if done.returncode == 0 else [f"does not train: {done.stderr.strip()}"]
    for key, (planned, measured) in held(done.stdout).items():
        if planned != measured or planned != f"{taken[key] / 2**20:.2f}":
            wrong.append(f"{key}: {taken[key] / 2**20:.2f} MiB planned, {measured} held")
    if done.returncode == 0 and [key for _, key in PLACES if taken[key] > 0] != list(held(done.stdout)):
        wrong.append("galrun does not say what it holds")
    bench.write(layers + 1, *row)
    refused = bench.train(steps)
    if refused.returncode != NO_MEMORY or "the limit is" not in refused.stderr:
        wrong.append(f"one layer more: exit {refused.returncode}, {refused.stderr.strip()}")
    return layers, taken, wrong


def main():
    build = Path(sys.argv[1])
    device, host, steps = [int(word) for word in sys.argv[2:5]] + [16, 32, 2][len(sys.argv[2:5]):]
    failed, before = False, 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(build, folder, device, host)
        print(f"2 ranks, each {device} MiB of a device and {host} MiB of the host; per rank, MiB:")
        print(f"{'':<36} layers   parameters   device    host   storage")
        for name, *row in ROWS:
            layers, taken, wrong = try_row(bench, row, steps)
            parameters = layers * (12 * HIDDEN * HIDDEN + 13 * HIDDEN) + (LENGTH + 512) * HIDDEN
            mib = [taken[key] / 2**20 for _, key in PLACES]
            print(f"{name:<36} {layers:6} {parameters / 1e6:10.2f} M {mib[0]:8.1f} {mib[1]:7.1f} {mib[2]:9.1f}",
                  flush=True)
            wrong += [f"no larger than the row before, {before} layers"] if layers <= before else []
            for text in wrong:
                print(f"    {text}")
            failed, before = failed or bool(wrong), layers
    sys.exit(1 if failed else 0)


main()
