"""Galvatron-BMW's tables: the best throughput of a strategy under a memory budget, or out of memory.

A cell is a search. For its model and cluster galplan estimate prices every uniform layout at every batch (multiples of
8), once for all budgets and strategies; the fastest that a strategy allows and that fits counts. Strategies that choose
layer by layer may give a share of the layers to one layout and the rest to another with the same stages: both seconds
and bytes of equal layers add up, and with one limit two layouts are as good as any number. What a change of layout
between two layers costs is left out.

Under GPipe layers are dealt evenly to stages. Under 1F1B so that the slowest stage is as fast as can be, the fullest as
small, or in between, as PARTITIONS says; such a partition is of a number of stages and found with TP of 1 by moving one
layer at a time (climb).

Declared: memory is GiB; one microbatch without a pipeline, MICROBATCHES with one; partitions are found at 16 samples a GPU."""
import collections
import math

PURE = ("DP", "TP", "PP", "SDP")
MODELS = {"BERT-Huge-32": "bert-huge-32", "BERT-Huge-48": "bert-huge-48", "BERT-xHuge": "bert-xhuge",
          "ViT-Huge-32": "vit-huge-32", "ViT-Huge-48": "vit-huge-48", "ViT-xHuge": "vit-xhuge",
          "T5-Large-32": "t5-large-32", "T5-Large-48": "t5-large-48", "T5-512/4-32": "t5-512-4-32",
          "T5-512/4-48": "t5-512-4-48", "Swin-Huge-32": "swin-huge-32", "Swin-Huge-48": "swin-huge-48",
          "GPT3-15B": "gpt3-15b", "GPT3-39B": "gpt3-39b", "GPT3-65B": "gpt3-65b"}
BATCH_STEP, BATCH_MOST = 8, 2048
# Of PyTorch's GPipe alone ("manually tuned", section VII-A), by family, then GPUs: what its calibration cells correspond
# to, given the other cells' constants. The last microbatch may be smaller: all take the time of the largest.
GPIPE_MICROBATCHES = {"BERT": {8: 6, 16: 16}, "T5": {8: 6, 16: 16}, "ViT": {8: 2, 16: 16}, "Swin": {8: 2, 16: 16},
                      "GPT3": {32: BATCH_MOST}}  # one sample each
# Of stages among other axes: GPipe, by family; 1F1B, by GPUs.
HYBRID_MICROBATCHES = {"BERT": 3, "T5": 3, "ViT": 2, "Swin": 2, "GPT3": 8}
FLUSH_MICROBATCHES = {8: 4, 16: 8}
LAYERS = {"GPT3-15B": 48, "GPT3-39B": 48, "GPT3-65B": 80, "BERT-xHuge": 128, "ViT-xHuge": 128}  # others: last in the name
# Shares of the way from the partition of least memory to that of least time. Section V: 1F1B+Mem and 1F1B+Time balance
# one alone, Bi-obj and BMW move layers between both.
BETWEEN = (0.0, 0.25, 0.5, 0.75, 1.0)
PARTITIONS = {"1F1B+Mem": (0.0,), "1F1B+Time": (1.0,), "1F1B+Bi-obj": BETWEEN, "Galvatron-BMW": BETWEEN}
BALANCE_SAMPLES = 16  # per GPU

Option = collections.namedtuple("Option",
                                "dp tp pp zero recompute schedule batch seconds bytes share partition microbatches")
# What a search finds: of microbatches how many there are (of two layouts both numbers, if they differ) and the policy.
Found = collections.namedtuple("Found", "samples_per_s batch partition microbatch_count microbatches")


def cluster_of(name):
    """Catalogue name, by what the table calls it."""
    if "TITAN" in name:
        return "titan-8" if name.startswith("8x") else "titan-16"
    if "A100-80GB" in name:
        return "a100-80g-32"
    return "a100-64" if name.startswith("64x") else "a100-16"


def framework_of(cell):
    return "pytorch-2022-fp16" if cell["table"] == "VI" else "pytorch-2022"


def estimated_with(cell):
    """Cells for which this is equal are answered from the same estimates."""
    return cell["model"], int(cell["gpus"]), framework_of(cell)


def powers(most):
    value = 1
    while value <= most:
        yield value
        value *= 2


def allows(strategy, gpus, option):
    """Whether a strategy may choose the layout (dp, tp, pp, zero, recompute, schedule)."""
    dp, tp, pp, zero, recompute, schedule = option[:6]
    flush = strategy in PARTITIONS
    if pp > 1 and (schedule == "1f1b") != flush:
        return False
    if recompute != "none" and strategy not in ("Galvatron-Base", "Galvatron-BMW"):
        return False
    rules = {"DP": dp == gpus and zero == 0, "TP": tp == gpus, "PP": pp == gpus, "SDP": dp == gpus and zero == 3,
             "DeepSpeed-3D": tp == 2 and pp == 2 and zero == 0, "DP+TP": pp == 1 and zero == 0,
             "DP+PP": tp == 1 and zero == 0}
    return rules.get(strategy, True)


def microbatches(family, gpus, pp, schedule):
    if pp == 1:
        return 1
    if schedule == "1f1b":
        return FLUSH_MICROBATCHES.get(gpus, max(gpus // 2, 8))
    if pp == gpus:
        return GPIPE_MICROBATCHES[family].get(gpus, gpus)
    return HYBRID_MICROBATCHES[family]


def family_of(cell):
    return cell["model"].split("-")[0]


def row_of(cell, dp, tp, pp, zero, recompute, schedule, batch, share=1.0, partition=()):
    """A row for galplan estimate; note is the batch, global_batch that with the last microbatch filled up; group is the
    partition's share of the way from least memory to least time. partition: () deals evenly."""
    wanted = microbatches(family_of(cell), int(cell["gpus"]), pp, schedule)
    microbatch = math.ceil(batch / dp / wanted)
    count = math.ceil(batch / dp / microbatch)
    return dict(model=MODELS[cell["model"]], dtype="fp16" if cell["table"] == "VI" else "fp32",
                cluster=cluster_of(cell["cluster"]), dp=dp, tp=tp, pp=pp, zero=zero, recompute=recompute,
                schedule=schedule, microbatch=microbatch, global_batch=microbatch * count * dp, note=batch,
                group=share, stage_layers=";".join(map(str, partition)))


def check(cell):
    """ValueError, and why, if the cell is none that can be searched."""
    if cell.get("model") not in MODELS:
        raise ValueError("unknown model")
    if cell.get("strategy") not in STRATEGIES + BALANCED:
        raise ValueError("unknown strategy")
    if cell.get("oom") not in ("0", "1"):
        raise ValueError("oom is neither 0 nor 1")
    if not all(str(cell.get(k)).isdecimal() and int(cell[k]) > 0 for k in ("gpus", "memory_gb")):
        raise ValueError("gpus or memory_gb is no number above 0")
    if int(cell["gpus"]) & (int(cell["gpus"]) - 1):
        raise ValueError("gpus is no power of two")
    if cell["oom"] == "0" and not str(cell.get("batch")).isdecimal():
        raise ValueError("batch is no whole number")


def layouts(cell, pure_only):
    gpus = int(cell["gpus"])
    heads = 32 if "xHuge" in cell["model"] else 16
    for pp in powers(gpus):
        for tp in powers(min(gpus // pp, 4 * heads)):
            dp = gpus // pp // tp
            if pure_only and gpus not in (dp, tp, pp):
                continue
            for zero in (0, 3) if dp > 1 else (0,):
                for recompute in ("none",) if pure_only else ("none", "full"):
                    for schedule in ("gpipe", "1f1b") if pp > 1 and not pure_only else ("gpipe",):
                        yield dp, tp, pp, zero, recompute, schedule


def layer_count(model):
    return LAYERS.get(model) or int(model.split("-")[-1])


def even(layers, stages):
    return tuple(layers * (i + 1) // stages - layers * i // stages for i in range(stages))


def moved(partition):
    """Every partition with one layer moved from one stage to another."""
    for source, layers in enumerate(partition):
        for target in range(len(partition)):
            if target != source and layers > 1:
                yield tuple(n - (i == source) + (i == target) for i, n in enumerate(partition))


def climb(starts, rows_of, estimate):
    """For each key of starts the partition that no move of a layer makes better. rows_of(key, partition): a row;
    estimate(rows): their figures; figures of a key are compared by its last member, "seconds" or "bytes"."""
    def figures(wanted):
        answers = estimate([rows_of(key, partition) for key, partition in wanted])
        return [float(a["estimated_" + key[-1]]) for (key, _), a in zip(wanted, answers)]

    best = dict(zip(starts, zip(figures(list(starts.items())), starts.values())))
    active = list(starts)
    while active:
        wanted = [(key, partition) for key in active for partition in moved(best[key][1])]
        active = []
        for (key, partition), figure in zip(wanted, figures(wanted) if wanted else ()):
            if figure < best[key][0]:
                best[key] = (figure, partition)
                active += [key] if key not in active else []
    return {key: partition for key, (_, partition) in best.items()}


def between(memory, seconds, share):
    """The partition whose borders lie at this share of the way from one partition's to another's."""
    borders = [0]
    for i in range(1, len(memory) + 1):
        at = (1.0 - share) * sum(memory[:i]) + share * sum(seconds[:i])
        borders.append(max(borders[-1] + 1, round(at)))
    return tuple(b - a for a, b in zip(borders, borders[1:]))


def partitions(cell, estimate):
    """Stages under 1F1B -> [(share, layers of each)]; estimate: rows -> answers."""
    gpus, layers = int(cell["gpus"]), layer_count(cell["model"])
    counts = [pp for pp in powers(gpus) if 1 < pp <= layers]
    found = climb({(pp, figure): even(layers, pp) for pp in counts for figure in ("seconds", "bytes")},
                  lambda key, partition: row_of(cell, gpus // key[0], 1, key[0], 0, "none", "1f1b", BALANCE_SAMPLES * gpus,
                                                partition=partition), estimate)
    return {pp: [(share, between(found[pp, "bytes"], found[pp, "seconds"], share)) for share in BETWEEN] for pp in counts}


def candidates(cell, dealt, pure_only=False):
    """Every row that searches of the cell's model on its cluster look at. dealt: partitions()."""
    return [row_of(cell, *layout, batch, share, partition) for layout in layouts(cell, pure_only)
            for share, partition in (dealt.get(layout[2], ()) if layout[5] == "1f1b" else ((1.0, ()),))
            for batch in range(BATCH_STEP, BATCH_MOST + 1, BATCH_STEP) if batch % layout[0] == 0]


def options(estimated):
    """The rows that were not refused."""
    return [Option(int(r["dp"]), int(r["tp"]), int(r["pp"]), int(r["zero"]), r["recompute"], r["schedule"],
                   int(r["note"]), float(r["estimated_seconds"]), float(r["estimated_bytes"]), float(r["group"]),
                   r["stage_layers"], int(r["microbatch_count"]))
            for r in estimated if not r["refused"]]


def fastest(members, limit, mixes):
    """(seconds, layouts): the least seconds of one layout for all layers, or if it mixes of two for shares of them,
    within limit bytes; (inf, ()): none."""
    fits = [o for o in members if o.bytes <= limit]
    if not fits:
        return math.inf, ()
    single = min(fits, key=lambda o: o.seconds)
    known = single.seconds, (single,)
    for fast in members if mixes else ():
        if fast.bytes > limit and fast.seconds < known[0]:
            for small in fits:
                share = (limit - small.bytes) / (fast.bytes - small.bytes)
                seconds = share * fast.seconds + (1.0 - share) * small.seconds
                if seconds < known[0]:
                    known = seconds, (fast, small)
    return known


def best(cell, known):
    """Found of the cell among the options of its model and cluster; None: out of memory."""
    limit, gpus = float(cell["memory_gb"]) * 2**30, int(cell["gpus"])
    mixes = cell["strategy"] not in PURE + ("DeepSpeed-3D",)
    groups = collections.defaultdict(list)
    for option in known:
        shares = PARTITIONS.get(cell["strategy"], (1.0,))
        if allows(cell["strategy"], gpus, option) and (option.schedule == "gpipe" or option.share in shares):
            groups[(option.pp, option.partition, option.schedule, option.batch)].append(option)
    found = None
    for (pp, partition, schedule, batch), members in groups.items():
        seconds, layouts_used = fastest(members, limit, mixes)
        if seconds < math.inf and (found is None or batch / seconds > found.samples_per_s):
            counts = sorted({o.microbatches for o in layouts_used})
            found = Found(batch / seconds, batch, partition, ";".join(map(str, counts)),
                          f"max:{microbatches(family_of(cell), gpus, pp, schedule)}")
    return found


def measured_row(cell):
    """A cell at its published batch, to fit constants to; None: out of memory, a strategy that mixes, or a pipeline,
    whose microbatches are not known. Of Galvatron-Base, sharded data parallel with full recompute stands: it pins the
    rate of products."""
    pure = {"DP": ("dp", 0, "none"), "TP": ("tp", 0, "none"), "SDP": ("dp", 3, "none"), "Galvatron-Base": ("dp", 3, "full")}
    if cell["oom"] == "1" or cell["strategy"] not in pure:
        return None
    axis, zero, recompute = pure[cell["strategy"]]
    dp, tp, pp = (int(cell["gpus"]) if a == axis else 1 for a in ("dp", "tp", "pp"))  # one axis has all
    row = row_of(cell, dp, tp, pp, zero, recompute, "gpipe", math.ceil(int(cell["batch"]) / dp) * dp)
    row.update(seconds=int(row["note"]) / float(cell["samples_per_s"]), framework=framework_of(cell),
               group="-".join(cell[k] for k in ("table", "strategy", "model", "memory_gb")))
    return row


# ---- the paper's tables, from its text: which cells there are ----

STRATEGIES = PURE + ("DeepSpeed-3D", "DP+TP", "DP+PP", "Galvatron", "Galvatron-Base", "1F1B+Bi-obj", "Galvatron-BMW")
BALANCED = ("1F1B+Mem", "1F1B+Time", "1F1B+Bi-obj")
LOW_16 = "16x RTX TITAN two nodes 100Gb InfiniBand"
HIGH_16 = "16x A100 NVLink two nodes 100Gb InfiniBand"
HUGE = ("BERT-Huge-32", "BERT-Huge-48", "ViT-Huge-32", "ViT-Huge-48")
TABLES = [  # table, cluster, GPUs, budgets, models, strategies
    ("II", "8x RTX TITAN 24GB one node PCIe 3.0", 8, (8, 12, 16, 20),
     HUGE + ("T5-Large-32", "T5-Large-48", "Swin-Huge-32", "Swin-Huge-48"), STRATEGIES),
    ("III", LOW_16, 16, (8, 16), HUGE + ("T5-512/4-32", "T5-512/4-48"), STRATEGIES),
    ("III", HIGH_16, 16, (8, 16), HUGE + ("T5-512/4-32", "T5-512/4-48"), STRATEGIES),
    ("IV", "64x A100-40GB eight nodes 100Gb InfiniBand", 64, (16, 32), ("BERT-xHuge", "ViT-xHuge"), STRATEGIES),
    ("V", HIGH_16, 16, (8, 16), ("BERT-Huge-32", "BERT-Huge-48", "T5-512/4-32", "T5-512/4-48"), BALANCED),
    ("VI", "32x A100-80GB 400Gb InfiniBand", 32, (80,), ("GPT3-15B", "GPT3-39B", "GPT3-65B"), STRATEGIES),
]
COLUMNS = ("table", "cluster", "gpus", "memory_gb", "strategy", "model", "samples_per_s", "batch", "oom", "partition",
           "microbatch_count", "microbatches")  # how many, and the policy: at most so many


def cells():
    """Every cell of Tables II to VI, without its figures."""
    return [dict(table=table, cluster=cluster, gpus=str(gpus), memory_gb=str(memory), strategy=strategy, model=model)
            for table, cluster, gpus, budgets, models, strategies in TABLES
            for memory in budgets for strategy in strategies for model in models]


def answered(cell, found):
    """The cell with what was predicted; of Table V the layers of each stage too."""
    known = dict(cell, samples_per_s="", batch="", oom="1", partition="", microbatch_count="", microbatches="")
    if found is not None:
        known.update(found._asdict(), samples_per_s=f"{found.samples_per_s:.2f}", oom="0",
                     partition=found.partition if cell["table"] == "V" else "")
    return known
