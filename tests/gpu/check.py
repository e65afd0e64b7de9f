#!/usr/bin/env python3
"""make check-gpu: whether the GPU computes what the host does. Parts:

  operators     each CUDA operator against fp64: the tests of the emulated kernels, on the GPU; products and attention
                also by cuBLASLt and cuDNN
  equivalence   random plans of every family on 2, 4 and 8 ranks that share the GPU, in fp32, against one rank in fp64;
                rings, Ulysses and grids among them
  nccl          NCCL with one rank, from init to abort
  bf16          GPT-2 small for 100 steps in bf16 against fp32: losses differ by at most 0.02 nats at each
  graphs        CUDA graphs on and off: the same losses
  resume        3 steps and 3 give the bits of 6
  sanitizer     compute-sanitizer on our own kernels, where it runs

Usage: check.py [BUILD [WORD...]] [--out FILE] [--dry-run]. Exit 0 all is right; 1 something is not; 5 no GPU."""
import filecmp
import pathlib
import re
import shutil
import sys

import documents
import gpu

FAMILIES = {"decoder", "llama", "bert", "t5", "vit", "swin"}
SHARDINGS = {"ring", "zigzag", "ulysses", "2d"}
PLANS = 40  # of each number of ranks: of 40 draws no family is left out but by a chance of 4e-3
BF16_STEPS, BF16_NATS = 100, 0.02
OPERATORS = ("kernels", "norm_parts", "norm_residual", "rows", "products", "attention", "attention_library", "ring")
SANITIZED = (("memcheck", "rows"), ("memcheck", "attention"), ("memcheck", "ring"), ("racecheck", "rows"),
             ("racecheck", "ring"), ("synccheck", "rows"))


# ---- operators ----

def passed_tests(out):
    """Of cmocka's output: how many passed, and the names of those that did not."""
    found = re.search(r"\[  PASSED  \] (\d+) test", out)
    return int(found.group(1)) if found else 0, sorted(set(re.findall(r"\[  FAILED  \] (\w+)$", out, re.M)))


def operators(context):
    for name in OPERATORS:
        done = context.on_gpu([context.program(f"tests/gpu/{name}")], 240)
        if done is None:
            continue
        count, failed = passed_tests(done.out)
        good = done.code == 0 and count > 0 and not failed
        text = f"{count} tests" if good else f"{', '.join(failed)}: {done.reason()}"
        context.results.put(f"operators {name}", "pass" if good else "miss", text, done.seconds, {"passed_tests": count})


# ---- equivalence ----

def errors_of(out):
    """What equivalence printed of each check: the largest error, in units of the allowed one."""
    return {name: float(error) for name, error in
            re.findall(r"^(?:not )?ok (.*) \(\d+ plans; the largest error is (\S+) of the allowed\)", out, re.M)}


def families_of(out):
    return set(re.findall(r"^(?:plan|FAILED) seed \d+ world \d+: (\w+),", out, re.M))


def shardings_of(out):
    plans = "\n".join(re.findall(r"^(?:plan|FAILED) seed .*", out, re.M))
    return set(re.findall(r"(ring|zigzag|ulysses)\d", plans)) | set(re.findall(r"\btp\d+\.(2d)\b", plans))


def put_met(context, name, wanted, met):
    left_out = sorted(wanted - met)
    context.results.put(f"equivalence of every {name}", "miss" if left_out else "pass",
                        f"not met: {', '.join(left_out)}" if left_out else ", ".join(sorted(met)))


def equivalence(context):
    families, shardings = set(), set()
    for ranks in (2, 4, 8):
        program = context.program("tests/gpu/equivalence")
        done = context.on_gpu(["bash", documents.ROOT / "tests/support/mpirun.sh", ranks, program, PLANS, ranks, 0, 1,
                               "cuda"], 300, {"MPIRUN_TIMEOUT": "290"})
        if done is None:
            continue
        errors = errors_of(done.out)
        families |= families_of(done.out)
        shardings |= shardings_of(done.out)
        good = done.code == 0 and bool(errors)
        text = f"{PLANS} plans, the largest error is {max(errors.values()):.2g} of the allowed" if good else done.reason()
        context.results.put(f"equivalence on {ranks} ranks", "pass" if good else "miss", text, done.seconds, errors)
    if not context.dry_run:
        put_met(context, "family", FAMILIES, families)
        put_met(context, "sharding", SHARDINGS, shardings)


# ---- NCCL ----

def nccl(context):
    done = context.on_gpu([context.program("tests/gpu/one_rank")], 300)
    if done is None:
        return
    for verdict, name in re.findall(r"^(ok|not ok) (.*)$", done.out, re.M):
        context.results.put(f"nccl {name.partition(':')[0]}", "pass" if verdict == "ok" else "miss",
                            name.partition(": ")[2])
    if done.code != 0 and "not ok" not in done.out:
        context.results.put("nccl one rank", "miss", done.reason(), done.seconds)


# ---- training ----

def train(context, plan, data, log, *more):
    """galrun on the GPU: (steps of the log, how it ended), None in a dry run."""
    done = context.on_gpu([context.program("galrun"), plan, "--data", data, "--device", "cuda", "--deterministic",
                           "--log", log, "--evaluate-batches", 1, *more], 400)
    if done is None:
        return None
    return (documents.logged(log) if done.code == 0 else []), done


def largest_difference(a, b):
    """Of two lists of steps' losses; infinity if they are not of the same steps."""
    if not a or [s["step"] for s in a] != [s["step"] for s in b]:
        return float("inf")
    return max(abs(x["loss"] - y["loss"]) for x, y in zip(a, b))


def bf16(context):
    name = "bf16 against fp32"
    folder = context.folder
    data, plans = documents.text_of(folder), {}
    try:
        for dtype in ("fp32", "bf16"):
            model = documents.model_of("gpt2-small", compute_dtype=dtype)
            model["optimizer"] = {**model["optimizer"], "warmup_steps": 20}
            plans[dtype] = documents.plan_of(context.build, folder, dtype, model, 8, 1)
    except documents.Refused as refused:
        context.results.put(name, "skip", f"no plan in {dtype}: {refused}")
        return
    runs = {dtype: train(context, plan, data, folder / f"{dtype}.log", "--steps", BF16_STEPS)
            for dtype, plan in plans.items()}
    if context.dry_run:
        return
    ended = [done for _, done in runs.values() if done.code != 0]
    difference = largest_difference(runs["fp32"][0], runs["bf16"][0])
    good = not ended and difference <= BF16_NATS
    text = ended[0].reason() if ended else f"losses differ by {difference:.4f} nats at most, allowed are {BF16_NATS}"
    losses = {f"{dtype}_loss": [s["loss"] for s in steps] for dtype, (steps, _) in runs.items()}
    context.results.put(name, "pass" if good else "miss", text, sum(d.seconds for _, d in runs.values()),
                        {"allowed_nats": BF16_NATS, **losses})


def small_plan(context, folder, dtype="fp32"):
    model = documents.model_of("gpt2-small", layer_count=4, sequence_length=256, embedding_dropout=0.1,
                               attention_dropout=0.1, residual_dropout=0.1, compute_dtype=dtype)
    return documents.plan_of(context.build, folder, f"small-{dtype}", model, 8, 2)


def graphs(context):
    folder = context.folder
    plan, data = small_plan(context, folder), documents.text_of(folder)
    off = train(context, plan, data, folder / "off", "--steps", 8)
    on = train(context, plan, data, folder / "on", "--steps", 8, "--graphs")
    if off is None:
        return
    same = bool(off[0]) and [s["loss"] for s in off[0]] == [s["loss"] for s in on[0]]
    bad = [done for _, done in (off, on) if done.code != 0]
    context.results.put("graphs give the same losses", "pass" if same else "miss",
                        bad[0].reason() if bad else f"8 steps, {'the same bits' if same else 'they differ'}")


def tf32(context):
    """Factors of 10 bits instead of 23: another loss, and no further from it than bf16's, whose factors have 7."""
    folder = context.folder
    plan, data = small_plan(context, folder), documents.text_of(folder)
    runs = [train(context, plan, data, folder / name, "--steps", 8, *more)
            for name, more in (("exact", ()), ("rounded", ("--tf32",)))]
    if context.dry_run:
        return
    bad = [done for _, done in runs if done.code != 0]
    difference = largest_difference(runs[0][0], runs[1][0])
    good = not bad and 0.0 < difference <= BF16_NATS
    context.results.put("tf32 against fp32", "pass" if good else "miss", bad[0].reason() if bad else
                        f"losses differ by {difference:.3g} nats at most, allowed are {BF16_NATS}, and not none",
                        sum(done.seconds for _, done in runs))


def differing_files(a, b):
    names = sorted({p.name for top in (a, b) for p in top.glob("*")})
    _, different, absent = filecmp.cmpfiles(a, b, names, shallow=False)
    return different + absent if names else ["no checkpoint was written"]


def resume_in(context, dtype):
    folder = context.folder
    plan, data = small_plan(context, folder, dtype), documents.text_of(folder)
    whole, parts = folder / f"whole-{dtype}", folder / f"parts-{dtype}"
    runs = [train(context, plan, data, folder / "whole", "--steps", 6, "--save", whole),
            train(context, plan, data, folder / "first", "--steps", 3, "--save", parts),
            train(context, plan, data, folder / "second", "--steps", 6, "--save", parts, "--resume", "latest")]
    if context.dry_run:
        return
    bad = [done for _, done in runs if done.code != 0]
    different = [] if bad else differing_files(whole / "step-00000006", parts / "step-00000006")
    text = bad[0].reason() if bad else f"differ: {', '.join(different)}" if different else "every file of the checkpoint"
    context.results.put(f"resume in {dtype} gives the same bits", "miss" if bad or different else "pass", text,
                        sum(done.seconds for _, done in runs))


# In fp16 the scale of the loss goes along too.
def resume(context):
    for dtype in ("fp32", "fp16"):
        resume_in(context, dtype)


# ---- compute-sanitizer ----

def sanitizer(context):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not context.dry_run and not pathlib.Path(tool).exists():
        context.results.put("sanitizer", "skip", "there is no compute-sanitizer")
        return
    for check, name in SANITIZED:
        done = context.on_gpu([tool, "--tool", check, "--error-exitcode", 99, context.program(f"tests/gpu/{name}")], 240)
        if done is None:
            continue
        full_name = f"sanitizer {check} of {name}"
        if "Device not supported" in done.out:
            context.results.put(full_name, "skip", "compute-sanitizer: Device not supported", done.seconds)
            continue
        summary = re.search(r"(ERROR|RACECHECK) SUMMARY: (.*)", done.out)
        good = done.code == 0 and summary is not None
        context.results.put(full_name, "pass" if good else "miss", summary.group(2) if good else done.reason(),
                            done.seconds)


PARTS = [(part.__name__, part) for part in (operators, equivalence, nccl, bf16, tf32, graphs, resume, sanitizer)]

if __name__ == "__main__":
    sys.exit(gpu.main_of("check-gpu", "Whether the GPU computes what the host does.", PARTS, sys.argv[1:]))
