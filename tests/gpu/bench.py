#!/usr/bin/env python3
"""make bench-gpu: how fast the GPU trains, and what is left. Parts:

  kernels       each kernel beside its limit: memory-bound ones 85 % of the copy rate, products 95 % of cuBLASLt's best
                algorithm, attention 90 % of cuDNN's own rate (by PyTorch)
  utilisation   share of the device's FLOP rate that whole steps use, of GPTs and Llamas, beside PyTorch (compiled, flash
                attention) in the same run
  graphs        CUDA graphs on against off
  breakdown     where the time of a step goes, by kind of kernel
  overlap       how much kernels and communication of 1 to 32 thread blocks slow each other
  prediction    single-GPU plans: predicted seconds and bytes against measured ones

Usage: bench.py [BUILD [WORD...]] [--out FILE] [--dry-run]. Exit 0 all is as wanted; 1 something is not; 5 no GPU."""
import json
import pathlib
import re
import statistics
import sys

import documents
import flops
import gpu

HERE = pathlib.Path(__file__).resolve().parent
H200_FLOPS_PER_SECOND = 989e12  # dense bf16, NVIDIA's data sheet of the H100 and H200 SXM
STEPS, WARM_STEPS = 12, 4
SHARES = {"memory": 0.85, "product": 0.95, "attention": 0.90}
# of bench's names in rates.c: samples, sequence, heads, head_dim, kv_heads
ATTENTION = [["7b", 2, 4096, 32, 128, 32], ["llama3-8b", 2, 4096, 32, 128, 8], ["1.5b", 8, 1024, 25, 64, 25],
             ["124m", 16, 1024, 12, 64, 12]]
WIDE = {"hidden": 4096, "head_count": 32, "ffn_hidden": 16384, "layer_count": 8, "sequence_length": 4096}
# name, model, changes, samples of a microbatch, least share of the data sheet's rate (0: none), least speed over PyTorch
MODELS = [
    ("gpt 124m", "gpt2-small", {}, 16, 0.0, 1.05),
    ("gpt 350m", "gpt2-medium", {}, 16, 0.0, 1.0),
    ("gpt 774m", "gpt2-large", {}, 8, 0.0, 1.0),
    ("gpt 1.5b", "gpt2-xl", {}, 8, 0.50, 1.0),
    ("gpt 7b-shaped", "gpt2-xl", WIDE, 2, 0.55, 1.0),
    ("llama 1.1b", "tinyllama-1.1b", {}, 4, 0.0, 1.0),
    ("llama2 7b-shaped", "llama2-7b", {"layer_count": 8}, 2, 0.0, 1.0),
    ("llama3 8b-shaped", "llama3-8b", {"layer_count": 8, "sequence_length": 4096}, 2, 0.0, 1.0),
]
MICROBATCHES = 4
PREDICTED_MODELS = ("gpt2-small", "gpt2-medium", "gpt2-large", "tinyllama-1.1b")
PREDICTED_SAMPLES = (2, 4, 8)
MEDIAN_ERROR, LEAST_SPEARMAN, PEAK_ERROR, PEAK_ABOVE = 0.05, 0.95, 0.01, 0.005
PROFILE_SECONDS = 60 + 15  # what is asked for, and the start of a process that makes a context and loads libraries


# ---- kernels ----

def lines_of(out):
    """The JSON objects among a program's lines."""
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def limit_seconds(line, limits, attention):
    """What the kernel of a line cannot be faster than, None where nobody has measured that."""
    if line["family"] == "memory":
        copy = limits["copy"]
        return line["bytes"] * copy["seconds"] / copy["bytes"]
    if line["family"] == "product":
        return line.get("best_seconds")
    model, _, what = line["name"].partition(" ")
    return attention[model][what == "attention_backward"] if model in attention else None


def kernels(context):
    torch = context.on_gpu([sys.executable, HERE / "torch_attention.py", json.dumps(ATTENTION)], 120)
    done = context.on_gpu([context.program("tests/gpu/rates")], 400)
    if done is None:
        return
    attention = lines_of(torch.out)[0] if torch.code == 0 else {}
    lines = lines_of(done.out)
    limits = {line["name"]: line for line in lines if line["family"] == "limit"}
    if done.code != 0 or not {"copy", "matmul"} <= set(limits):
        context.results.put("kernels", "miss", done.reason(), done.seconds)
        return
    context.matmul_flops_per_second = limits["matmul"]["flops"] / limits["matmul"]["seconds"]
    context.results.put("kernels limits", "pass",
                        f"copy {limits['copy']['bytes'] / limits['copy']['seconds'] / 1e12:.2f} TB/s, products "
                        f"{context.matmul_flops_per_second / 1e12:.0f} TFLOP/s", done.seconds, limits)
    for line in lines:
        if line["family"] != "limit":
            put_kernel(context, line, limit_seconds(line, limits, attention), torch)


def put_kernel(context, line, limit, torch):
    name = f"kernels {line['name']}"
    if limit is None:
        context.results.put(name, "skip", f"cuDNN's own rate is not known: {torch.reason()}", figures=line)
        return
    share = limit / line["seconds"]
    rate = f"{line['flops'] / line['seconds'] / 1e12:.0f} TFLOP/s" if line["flops"] else (
        f"{line['bytes'] / line['seconds'] / 1e12:.2f} TB/s")
    wanted = SHARES[line["family"]]
    context.results.put(name, "pass" if share >= wanted else "miss",
                        f"{100 * share:.1f} % of its limit ({100 * wanted:.0f} wanted), {rate}",
                        figures={**line, "share": share})


# ---- training ----

def train(context, plan, data, folder, *more, steps=STEPS):
    """galrun on the GPU: (median seconds of the steps after the first ones, how it ended); None in a dry run."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    done = context.on_gpu([context.program("galrun"), plan, "--data", data, "--device", "cuda", "--log", log, "--steps",
                           steps, "--evaluate-batches", 1, "-v", *more], 300)
    if done is None:
        return None
    taken = [s["seconds"] for s in documents.logged(log)[WARM_STEPS:]] if done.code == 0 else []
    return (statistics.median(taken) if taken else None), done


def bf16_plan(context, folder, name, changes, samples, microbatches=MICROBATCHES, recompute="none"):
    model = documents.model_of(name, compute_dtype="bf16", **changes)
    return model, documents.plan_of(context.build, folder, name, model, samples * microbatches, microbatches, recompute)


def utilisation(context):
    for name, catalogue, changes, samples, share, speed in MODELS:
        folder = context.folder
        try:
            model, plan = bf16_plan(context, folder, catalogue, changes, samples)
        except documents.Refused as refused:
            context.results.put(f"utilisation {name}", "skip", f"no plan in bf16: {refused}")
            continue
        ours = train(context, plan, documents.text_of(folder), folder, "--graphs")
        theirs = context.on_gpu([sys.executable, HERE / "torch_train.py", folder / f"{catalogue}.model.json",
                                 samples * MICROBATCHES, MICROBATCHES, STEPS], 300)
        if ours is not None:
            put_utilisation(context, name, model, samples * MICROBATCHES, ours, theirs, share, speed)


def put_utilisation(context, name, model, samples, ours, theirs, share, speed):
    seconds, done = ours
    if seconds is None:
        context.results.put(f"utilisation {name}", "miss", done.reason(), done.seconds)
        return
    used = flops.utilisation(model, samples, seconds, H200_FLOPS_PER_SECOND)
    figures = {"step_seconds": seconds, "samples": samples, "flops_per_token": flops.flops_per_token(model),
               "utilisation": used}
    text = f"{100 * used:.1f} % of 989 TFLOP/s" + (f" ({100 * share:.0f} wanted)" if share else "")
    measured = getattr(context, "matmul_flops_per_second", None)
    if measured:
        figures["utilisation_of_measured"] = flops.utilisation(model, samples, seconds, measured)
        text += f", {100 * figures['utilisation_of_measured']:.1f} % of the products' rate"
    context.results.put(f"utilisation {name}", "pass" if used >= share else "miss", text, done.seconds, figures)
    put_speed(context, name, seconds, theirs, speed)


def put_speed(context, name, seconds, theirs, speed):
    """Beside PyTorch, where it is and has trained."""
    said = lines_of(theirs.out) if theirs.code == 0 else []
    if not said:
        context.results.put(f"speed {name}", "skip", f"PyTorch: {theirs.reason()}", theirs.seconds)
        return
    torch_seconds = statistics.median(said[0]["seconds"][WARM_STEPS:])
    ratio = torch_seconds / seconds
    context.results.put(f"speed {name}", "pass" if ratio >= speed else "miss",
                        f"{ratio:.3f} times PyTorch {said[0]['version']} ({speed:.2f} wanted)", theirs.seconds,
                        {"torch_step_seconds": torch_seconds, "ratio": ratio})


def graphs(context):
    for name, catalogue, samples in (("gpt 124m", "gpt2-small", 16), ("gpt 1.5b", "gpt2-xl", 8)):
        folder = context.folder
        try:
            _, plan = bf16_plan(context, folder, catalogue, {}, samples)
        except documents.Refused as refused:
            context.results.put(f"graphs {name}", "skip", f"no plan in bf16: {refused}")
            continue
        data = documents.text_of(folder)
        runs = [train(context, plan, data, folder), train(context, plan, data, folder, "--graphs")]
        if context.dry_run:
            continue
        bad = [done for seconds, done in runs if seconds is None]
        off, on = (seconds for seconds, _ in runs)
        context.results.put(f"graphs {name}", "miss" if bad else "pass",
                            bad[0].reason() if bad else f"{off / on:.3f} times as fast with graphs",
                            figures={"off_seconds": off, "on_seconds": on})


def shares_of(trace):
    """Of a trace: seconds of the compute stream by kind, and what is left of the step; largest first."""
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == 0]
    begin, end = min(e["ts"] for e in spans), max(e["ts"] + e["dur"] for e in spans)
    kinds = {}
    for span in spans:
        kinds[span["cat"]] = kinds.get(span["cat"], 0.0) + 1e-6 * span["dur"]
    kinds["nothing"] = max(0.0, 1e-6 * (end - begin) - sum(kinds.values()))
    return dict(sorted(kinds.items(), key=lambda kind: -kind[1]))


def breakdown(context):
    for name, catalogue, changes, samples in (("gpt 1.5b", "gpt2-xl", {}, 8), ("gpt 7b-shaped", "gpt2-xl", WIDE, 2)):
        folder = context.folder
        try:
            _, plan = bf16_plan(context, folder, catalogue, changes, samples, 1)
        except documents.Refused as refused:
            context.results.put(f"breakdown {name}", "skip", f"no plan in bf16: {refused}")
            continue
        ours = train(context, plan, documents.text_of(folder), folder, "--trace", folder / "trace")
        if ours is None:
            continue
        seconds, done = ours
        kinds = {} if seconds is None else shares_of(json.loads((folder / "trace").read_text(encoding="utf-8")))
        whole = sum(kinds.values())
        text = ", ".join(f"{kind} {100 * s / whole:.1f} %" for kind, s in list(kinds.items())[:8])
        context.results.put(f"breakdown {name}", "miss" if seconds is None else "pass",
                            text or done.reason(), done.seconds, kinds)


# ---- the profile: overlap and predictions ----

def profile_of(context):
    """The profile of this GPU for the models of the predictions, measured once; None if there is none, and in a dry
    run."""
    path = context.folder / "profile.json"
    if hasattr(context, "profile_tried"):
        return path if path.exists() else None
    context.profile_tried, models, changes = True, [], predicted_changes(context)
    for name in PREDICTED_MODELS:
        model = documents.model_of(name, **changes)
        models.append(documents.write(context.folder / f"profiled-{name}.json", {**model, "global_batch_samples": 8}))
    done = context.on_gpu([context.program("galplan-profile"), "--device", "cuda", "-q", "--batch",
                           ",".join(str(s) for s in PREDICTED_SAMPLES), "--microbatches", 1, "--budget-seconds", 60, "-o",
                           path, "--model", *models], 200)
    if done is None:
        return None
    good = done.code == 0 and path.exists()
    context.results.put("profile of the GPU", "pass" if good and done.seconds <= PROFILE_SECONDS else "miss",
                        f"{done.seconds:.1f} s (at most {PROFILE_SECONDS})" if good else done.reason(), done.seconds)
    return path if good else None


def predicted_changes(context):
    """bf16 where it has plans, else fp32."""
    try:
        bf16_plan(context, context.folder, "gpt2-small", {}, 1, 1)
        return {"compute_dtype": "bf16"}
    except documents.Refused:
        return {"compute_dtype": "fp32"}


def overlap(context):
    path = profile_of(context)
    if path is None:
        return
    rows = json.loads(path.read_text(encoding="utf-8")).get("gpu", {}).get("slowdown_by_ctas", [])
    for row in rows:
        print(f"  {row['ctas']:3d} blocks: kernels {row['compute']:.3f}, communication {row['communication']:.3f}")
    context.results.put("overlap by thread blocks", "pass" if rows else "miss",
                        f"{len(rows)} sizes" if rows else "the profile has no table", figures={"rows": rows})


def ranks_of(values):
    """1 for the least; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) + 1) / 2 for v in values]


def spearman(a, b):
    """The correlation of ranks; 0 where one side is all equal."""
    x, y = ranks_of(a), ranks_of(b)
    middle = (len(a) + 1) / 2
    product = sum((i - middle) * (j - middle) for i, j in zip(x, y))
    square = sum((i - middle) ** 2 for i in x) * sum((j - middle) ** 2 for j in y)
    return product / square ** 0.5 if square > 0 else 0.0


def taken_bytes(out):
    """What galrun -v says of the GPU's memory: (all that is taken, of it the arena), in bytes."""
    said = re.search(r"([0-9.]+) MiB of the GPU are taken: arena ([0-9.]+)", out)
    return tuple(float(mib) * 2 ** 20 for mib in said.groups()) if said else None


def predicted_of(context, profile, plan):
    done = gpu.run([context.build / "galplan", "simulate", "--profile", profile, "--json", plan], 60)
    if done.code != 0:
        raise documents.Refused(done.reason())
    said = json.loads(done.out)
    return said["simulated_seconds"], said["stages"][0]["bytes"], said["stages"][0]["arena_bytes"]


def one_prediction(context, folder, profile, case, data):
    """A row of the table, None in a dry run; Refused."""
    name, samples, recompute, changes = case
    plan = documents.plan_of(context.build, folder, name, documents.model_of(name, **changes), samples, 1, recompute)
    ours = train(context, plan, data, folder)
    if ours is None:
        return None
    seconds, done = ours
    bytes_taken = taken_bytes(done.out)
    if seconds is None or bytes_taken is None:
        raise documents.Refused(done.reason())
    predicted_seconds, predicted_bytes, arena_bytes = predicted_of(context, profile, plan)
    return {"model": name, "samples": samples, "recompute": recompute, "predicted_seconds": predicted_seconds,
            "seconds": seconds, "predicted_bytes": predicted_bytes, "bytes": bytes_taken[0],
            "predicted_arena_bytes": arena_bytes, "arena_bytes": bytes_taken[1]}


def prediction(context):
    folder = context.folder
    profile, data = profile_of(context), documents.text_of(folder)
    changes = predicted_changes(context)
    rows, failed = [], None
    for name in PREDICTED_MODELS:
        for samples in PREDICTED_SAMPLES:
            for recompute in documents.RECOMPUTE:
                try:
                    if profile is not None or context.dry_run:
                        rows.append(one_prediction(context, folder, profile, (name, samples, recompute, changes), data))
                except documents.Refused as refused:
                    failed = failed or f"{name}, {samples} samples, {recompute}: {refused}"
    if not context.dry_run:
        put_predictions(context, rows, failed)


def put_predictions(context, rows, failed):
    results = context.results
    if failed or len(rows) < 30:
        results.put("prediction of 30 plans", "miss", failed or f"{len(rows)} plans", figures={"rows": rows})
    if not rows:
        return
    error = statistics.median(abs(r["predicted_seconds"] / r["seconds"] - 1) for r in rows)
    results.put("prediction of seconds", "pass" if error <= MEDIAN_ERROR else "miss",
                f"median error {100 * error:.1f} % of {len(rows)} plans ({100 * MEDIAN_ERROR:.0f} wanted)",
                figures={"rows": rows})
    for name in PREDICTED_MODELS:
        group = [r for r in rows if r["model"] == name]
        if group:
            rank = spearman([r["predicted_seconds"] for r in group], [r["seconds"] for r in group])
            results.put(f"prediction of order, {name}", "pass" if rank >= LEAST_SPEARMAN else "miss",
                        f"Spearman {rank:.3f} of {len(group)} plans ({LEAST_SPEARMAN} wanted)",
                        figures={"spearman": rank})
    # what is printed has two decimals of a MiB
    arena = max(abs(r["arena_bytes"] - r["predicted_arena_bytes"]) for r in rows)
    results.put("prediction of arena bytes", "pass" if arena <= 0.01 * 2 ** 20 else "miss", f"off by {arena:.0f} bytes")
    peak = [r["bytes"] / r["predicted_bytes"] - 1 for r in rows]
    good = max(map(abs, peak)) <= PEAK_ERROR and max(peak) <= PEAK_ABOVE
    results.put("prediction of the peak", "pass" if good else "miss",
                f"{100 * min(peak):+.2f} to {100 * max(peak):+.2f} % of what is planned (within 1, at most +0.5, wanted)")


PARTS = [(part.__name__, part) for part in (kernels, utilisation, graphs, breakdown, overlap, prediction)]

if __name__ == "__main__":
    sys.exit(gpu.main_of("bench-gpu", "How fast the GPU trains, and what is left.", PARTS, sys.argv[1:]))
