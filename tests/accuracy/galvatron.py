"""Galvatron-BMW's tables: the best throughput of a strategy under a memory budget, or out of memory.

A cell is a search: all batches (multiples of 8) and, of the strategies that combine several, all uniform layouts, by
galplan estimate in one call; the fastest that fits counts. Microbatches: one for DP, TP and SDP; for pipelines
MICROBATCHES, a declared policy. Memory is GiB."""
import math


STRATEGIES = ("DP", "TP", "PP", "SDP", "Galvatron-Base")
MODELS = {"BERT-Huge-32": "bert-huge-32", "BERT-Huge-48": "bert-huge-48", "BERT-xHuge": "bert-xhuge",
          "ViT-Huge-32": "vit-huge-32", "ViT-Huge-48": "vit-huge-48", "ViT-xHuge": "vit-xhuge",
          "T5-Large-32": "t5-large-32", "T5-Large-48": "t5-large-48", "T5-512/4-32": "t5-512-4-32",
          "T5-512/4-48": "t5-512-4-48", "Swin-Huge-32": "swin-huge-32", "Swin-Huge-48": "swin-huge-48",
          "GPT3-15B": "gpt3-15b", "GPT3-39B": "gpt3-39b", "GPT3-65B": "gpt3-65b"}
# By family, then GPUs: what the pipelines' calibration cells correspond to, given the other cells' constants; a part of
# what is fitted to them. The last microbatch may be smaller: all take the time of the largest.
MICROBATCHES = {"BERT": {8: 8, 16: 16}, "T5": {8: 8, 16: 16}, "ViT": {8: 3, 16: 16}, "Swin": {8: 3, 16: 16},
                "GPT3": {32: 32}}
BATCH_STEP, BATCH_MOST = 8, 2048


def cluster_of(name):
    """Catalogue name, by what the table calls it."""
    if "TITAN" in name:
        return "titan-8" if name.startswith("8x") else "titan-16"
    if "A100-80GB" in name:
        return "a100-80g-32"
    return "a100-64" if name.startswith("64x") else "a100-16"


def powers(most):
    value = 1
    while value <= most:
        yield value
        value *= 2


def layouts(strategy, gpus):
    """(dp, tp, pp, zero, recompute) of a strategy."""
    pure = {"DP": (gpus, 1, 1, 0), "TP": (1, gpus, 1, 0), "PP": (1, 1, gpus, 0), "SDP": (gpus, 1, 1, 3)}
    if strategy in pure:
        return [pure[strategy] + ("none",)]
    found = []
    for pp in powers(gpus):
        for tp in powers(gpus // pp):
            dp = gpus // pp // tp
            for zero in (0, 3) if dp > 1 else (0,):
                found += [(dp, tp, pp, zero, recompute) for recompute in ("none", "full")]
    return found


def row_of(cell, layout, batch):
    """A row for galplan estimate, or None where the batch does not divide."""
    dp, tp, pp, zero, recompute = layout
    family, gpus = cell["model"].split("-")[0], int(cell["gpus"])
    wanted = MICROBATCHES[family].get(gpus, gpus) if pp > 1 else 1
    if batch % dp:
        return None
    microbatch = math.ceil(batch / dp / wanted)
    count = math.ceil(batch / dp / microbatch)
    dtype = "fp16" if cell["table"] == "VI" else "fp32"
    return dict(model=MODELS[cell["model"]], dtype=dtype, cluster=cluster_of(cell["cluster"]), dp=dp, tp=tp, pp=pp,
                zero=zero, recompute=recompute, schedule="gpipe", microbatch=microbatch,
                global_batch=microbatch * count * dp, note=batch)


def candidates(cell):
    """Every row that the cell's search looks at."""
    rows = []
    for layout in layouts(cell["strategy"], int(cell["gpus"])):
        for batch in range(BATCH_STEP, BATCH_MOST + 1, BATCH_STEP):
            row = row_of(cell, layout, batch)
            if row is not None:
                rows.append(row)
    return rows


def best(cell, estimated):
    """The fastest of the estimated rows that fits; None: out of memory."""
    limit = float(cell["memory_gb"]) * 2**30
    fitting = [r for r in estimated if not r["refused"] and float(r["estimated_bytes"]) <= limit]
    return max(fitting, key=throughput, default=None)


def throughput(estimated):
    """Samples per second; note is the batch, global_batch that with the last microbatch filled up."""
    return float(estimated["note"]) / float(estimated["estimated_seconds"])


def framework_of(cell):
    return "pytorch-2022-fp16" if cell["table"] == "VI" else "pytorch-2022"


def measured_row(cell):
    """A cell at its published batch, to fit constants to; None: out of memory. Of Galvatron-Base, which mixes layers,
    sharded data parallel with full recompute stands: its batches need no less, and it pins the rate of products."""
    if cell["oom"] == "1":
        return None
    batch = int(cell["batch"])
    pure = cell["strategy"] in STRATEGIES[:4]
    layout = layouts(cell["strategy"], int(cell["gpus"]))[0] if pure else (int(cell["gpus"]), 1, 1, 3, "full")
    batch = math.ceil(batch / layout[0]) * layout[0]
    row = row_of(cell, layout, batch)
    row.update(seconds=batch / float(cell["samples_per_s"]), framework=framework_of(cell),
               group="-".join(cell[k] for k in ("table", "strategy", "model", "memory_gb")))
    return row
