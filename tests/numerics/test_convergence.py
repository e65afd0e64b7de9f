#!/usr/bin/env python3
"""A small ViT on the 1,797 digits of scikit-learn (tests/fixtures/digits), in fp32 from one seed: 200 steps on one
device, and 50 steps (200 in make check-all) as replicas, by 1D, 2D, 2.5D and 3D tensor parallelism, Ulysses and rings.
Every loss is within 1e-4 of that of one device at the same step (Colossal-AI, Figure 11, has accuracies that run
together), and one device learns. A mode that galrun does not run is named, with its reason.
timeout_seconds: 900"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "tests/fixtures/digits"
STEPS, ALLOWED, SIDE = 200, 1e-4, 9
# Steps of each parallel mode. Rounding grows with the steps, a wrong gradient shows in the first of them.
MODE_STEPS = STEPS if int(os.environ.get("PLANS", "100")) >= 500 else 50

# Ranks and axes, innermost first. Of 10 positions (9 patches of 3 x 3 and the class token) 2 and 5 are divisors.
PLANS = {
    "dp4": (4, [("dp", 4)]),
    "tp4, 1d": (4, [("tp", 4)]),
    "tp4, 2d": (4, [("tp", 4, "2d")]),
    "tp8, 2.5d of depth 2": (8, [("tp", 8, "2.5d", 2)]),
    "tp8, 3d": (8, [("tp", 8, "3d")]),
    "ring5": (5, [("ring", 5)]),
    "ring2 beside dp2": (4, [("ring", 2), ("dp", 2)]),
    "ulysses2 beside sdp2, ZeRO 2": (4, [("ulysses", 2), ("sdp", 2)], 2),
}


def verdict(name, good, why=""):
    """One line; whether it is good."""
    print(f"{'ok' if good else 'not ok'} {name}{'' if good else ': ' + str(why)}", flush=True)
    return good


def pixels_of(path, count):
    """The bytes of an array of numpy.save, behind its header."""
    return path.read_bytes()[-count:]


def write_images(folder, count):
    """Digits of 9 x 9: a row and a column of background more, and levels to 255."""
    flat = pixels_of(DIGITS / "images.npy", count * 64)
    rows = bytearray()
    for image in range(count):
        for y in range(SIDE):
            line = flat[image * 64 + 8 * y:image * 64 + 8 * y + 8] if y < 8 else bytes(8)
            rows += bytes(min(255, 16 * level) for level in line) + bytes(1)
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {SIDE}, {SIDE}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    (folder / "images.npy").write_bytes(start + bytes(rows))


MODEL = {
    "document": "model", "version": 1, "name": "digits", "family": "vit", "layer_count": 2, "hidden": 32,
    "head_count": 4, "ffn_hidden": 64, "sequence_length": 10, "vocabulary": 10, "vocabulary_multiple": 8,
    "activation": "gelu_erf", "tied_embeddings": False, "image_size": SIDE, "patch_size": 3, "channel_count": 1,
    "pixel_mean": 0.3, "pixel_standard_deviation": 0.38, "layer_norm_epsilon": 1e-06, "embedding_dropout": 0,
    "attention_dropout": 0, "residual_dropout": 0.1, "initial_standard_deviation": 0.05, "compute_dtype": "fp32",
    "global_batch_samples": 32,
    "optimizer": {"kind": "adamw", "learning_rate": 0.001, "minimum_learning_rate": 0.0001, "warmup_steps": 20,
                  "decay_steps": 180, "beta1": 0.9, "beta2": 0.98, "epsilon": 1e-08, "weight_decay": 0.05,
                  "gradient_clip_norm": 1}}


def axis_of(spec):
    """kind, degree and of grids mode and depth."""
    axis = {"kind": spec[0], "degree": spec[1]}
    if len(spec) > 2:
        axis["mode"] = spec[2]
    if len(spec) > 3:
        axis["depth"] = spec[3]
    return axis


def write_plan(path, ranks, axes, zero_stage=0):
    """One strategy for all blocks."""
    strategy = {"axes": [axis_of(spec) for spec in axes], "zero_stage": zero_stage, "sequence_parallel": False,
                "recompute": "none"}
    cluster = {"document": "cluster", "version": 1, "name": "here", "device_count": ranks,
               "device": {"kind": "cpu", "memory_bytes": 1 << 30, "fp32_flops_per_second": 1e11,
                          "fp64_flops_per_second": 5e10, "memory_bytes_per_second": 2e10},
               "levels": [{"name": "memory", "span_devices": ranks, "latency_seconds": 1e-06,
                           "bytes_per_second": 1e10}]}
    plan = {"document": "plan", "version": 1, "model": MODEL, "cluster": cluster, "profile_hash": "",
            "global_batch_samples": 32, "microbatch_count": 1, "pp_degree": 1, "schedule": "1f1b",
            "prefetch_depth": 2, "fixed_bytes": 0, "objective_seconds": 0, "simulated_seconds": 0,
            "lower_bound_seconds": 0, "stages": [{"predicted_bytes": 0,
                                                  "runs": [{"block_count": 6, "strategy": strategy}]}]}
    path.write_text(json.dumps(plan), encoding="utf-8")


def train(folder, name, steps, ranks, axes, zero_stage=0):
    """The losses of all steps, or the reason that there are none."""
    plan, log = folder / "plan.json", folder / "log.jsonl"
    write_plan(plan, ranks, axes, zero_stage)
    log.unlink(missing_ok=True)
    command = [BUILD / "galrun", plan, "--np", str(ranks), "--data", folder / "images.npy", "--labels",
               DIGITS / "labels.npy", "--steps", str(steps), "--log", log, "--quiet", "--evaluate-batches", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    if done.returncode == 3 and "planned for, not run" in done.stderr:
        print(f"skip {name}: {done.stderr.strip().split(': ', 3)[-1]}", flush=True)
        return None
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    losses = [line["loss"] for line in lines if "loss" in line and "step" in line]
    if not verdict(f"{name}: trains {steps} steps", done.returncode == 0 and len(losses) >= steps,
                   f"exit {done.returncode}, {len(losses)} losses; {done.stderr.strip()[-300:]}"):
        return []
    return losses[:steps]


def main():
    """One device first."""
    fine = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_images(folder, 1797)
        alone = train(folder, "one device", STEPS, 1, [])
        fine = verdict("one device learns", bool(alone) and sum(alone[-20:]) < 0.5 * sum(alone[:20]),
                       f"{alone[:1]} to {alone[-1:]}")
        for name, spec in PLANS.items():
            losses = train(folder, name, MODE_STEPS, *spec)
            if losses is None:
                continue
            apart = max((abs(a - b) for a, b in zip(alone, losses)), default=float("inf"))
            fine = verdict(f"{name}: losses within {ALLOWED} of one device's ({apart:.1e})",
                           len(losses) == MODE_STEPS and apart <= ALLOWED, apart) and fine
    return 0 if fine else 1


sys.exit(main())
