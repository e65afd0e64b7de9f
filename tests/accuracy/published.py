#!/usr/bin/env python3
"""published.py BUILD DATA [SEED] [-v] [--fresh]: predictions of `galplan estimate` beside measurements that others published.

DATA is a folder of CSV files; the columns of a file say which kind it is, so rows of other models and sizes than those
seen are read the same way. Each kind has a protocol, stated in its table row: which rows are used, which constants are
fitted to which of them (`galplan profile --calibrate`), and that the others are predicted. Constants are never fitted to
a row that is reported, and every target stands beside its figure. What frameworks fuse and keep (schemas/catalogue/
frameworks) was described from their sources and papers with these files at hand: rows held back test constants and
formulas, not those descriptions, which only files that nobody had seen could. Targets that are missed are marked; they fail nothing.
Constants that were fitted to published rows are at hand (at_hand.py): a file that has none of these rows, which is so of
one that was kept apart, starts from them (not with --fresh), and cells of Galvatron-BMW are predicted by them with nothing fitted.
published.py BUILD DATA --constants renews them from a folder; published.py BUILD CELLS --tables FILE predicts all of Galvatron-BMW's tables into a file, from its calibration cells.
Exit 0: a table was printed; 77: there is no such folder, or no CSV file in it (the last line says so), 1 where $CI is set."""
import collections
import csv
import math
import os
import pathlib
import random
import re
import sys
import tempfile

import at_hand
import galvatron_cells
from galplan import calibrate, predict
from scores import figures, worst_regrets

HERE = pathlib.Path(__file__).resolve().parent
CLUSTERS = HERE / "clusters"
FIT_ALL = ("gemm_fraction,memory_fraction,kernel_seconds,host_seconds,inner_fraction,inner_seconds,"
           "transfer_seconds,step_seconds")
MEGATRON_VOCABULARY = 51200  # SC21, below its Eq. 2
MPT_VOCABULARY = 50368
MPT = {"125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12), "1b": (24, 2048, 16),
       "3b": (32, 2560, 20), "7b": (32, 4096, 32), "13b": (40, 5120, 40), "30b": (48, 7168, 56),
       "70b": (80, 8192, 64)}  # layers, width, heads: llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml
MPT_VARIANT = {("PURE", "a100-40g-roce"): "-pure", ("PURE", "a100-80g-roce"): "-pure",
               ("PURE", "h100-roce"): "-hopper", ("DEFAULT", "h100-roce"): "-hopper"}  # of the framework
SAILOR = {"OPT-350": (24, 1024, 16, 50272), "GPT-Neo-2.7": (32, 2560, 20, 50257)}  # layers, width, heads, vocabulary
LLAMA_3_1 = {"8B": "llama3-8b", "70B": "llama3-70b", "405B": "llama3-405b"}


class Excluded(Exception):
    """A row that is not used, and why."""


def cluster(name):
    return str(CLUSTERS / f"{name}.json")


# ---- kinds of files: a row of the file -> a row for galplan ----

def megatron_row(row, recompute, chunks, microbatch):
    layout = {k: row[k] for k in ("layers", "hidden", "heads", "seq", "tp", "pp", "dp")}
    layout.update(vocab=MEGATRON_VOCABULARY, tied=1, dropout=0.1, dtype="fp16", recompute=recompute,
                  microbatch=microbatch, global_batch=row["global_batch"])
    if chunks > 1:
        layout.update(schedule="interleaved", chunks=chunks)
    return layout


def vtrain(row):
    out = megatron_row(row, "full", 1, row["microbatch"])
    out.update(cluster=cluster("a100-800g"), seconds=float(row["iter_ms"]) / 1e3, part=row.get("set", ""),
               group="-".join(row.get(k, "") for k in ("set", "hidden", "layers", "gpus", "global_batch")))
    return out


def sequence_parallel(row):
    modes = {"full_recompute": ("full", 0), "seqpar+selective": ("selective", 1)}
    if row["mode"] not in modes or not row["iter_s_published"]:
        raise Excluded("memory only, computed in the paper")
    recompute, sp = modes[row["mode"]]
    out = megatron_row(row, recompute, int(row["interleave"]), row["microbatch"])
    out.update(sp=sp, cluster=cluster("selene"), seconds=row["iter_s_published"], group=row["model"])
    return out


def sc21_chunks(row):
    """Declared: the least number of pieces from 2 on that cuts a stage's layers evenly; none without a pipeline."""
    per_stage, rest = divmod(int(row["layers"]), int(row["pp"]))
    if int(row["pp"]) == 1 or rest:
        return 1
    return next((v for v in range(2, per_stage + 1) if per_stage % v == 0), 1)


def sc21(row):
    """Declared: microbatches of 4 samples on one stage, of 1 on several (where given, as given)."""
    if row["table"] != "T1":
        raise Excluded("Table 2: other schemes, degrees not printed")
    microbatch = row["microbatch"] or (4 if int(row["pp"]) == 1 else 1)
    out = megatron_row(row, "full", sc21_chunks(row), microbatch)
    out.update(cluster=cluster("selene"), seconds=row["derived_iter_s"], group=row["params_b"])
    return out


def torchtitan_degrees(row):
    """dp, tp, pp as the texts of the row say them ("FSDP 32, TP 8"); without a word all devices are FSDP's."""
    said = {}
    for text in (row.get("variant"), row.get("setup"), row.get("caption")):
        for axis, degree in re.findall(r"\b(FSDP|DP|TP|PP|CP)\s*(?:degree\s*)?(\d+)", text or ""):
            said.setdefault(axis, int(degree))
    if said.get("CP", 1) > 1:
        raise Excluded("context parallel")
    tp, pp = said.get("TP", 1), said.get("PP", 1)
    dims = re.search(r"\b([234])D\b", row["setup"])
    if dims and tp * pp == 1:
        raise Excluded("degrees are not said")
    return int(row["gpus"]) // tp // pp, tp, pp


def torchtitan(row):
    if "float8" in (row["variant"] + row["setup"]).lower():
        raise Excluded("FP8")
    name = LLAMA_3_1.get(row["model"].split()[-1])
    if name is None:
        raise Excluded("unknown model")
    dp, tp, pp = torchtitan_degrees(row)
    sequence = int("".join(c for c in row["seq"].split("(")[0] if c.isdigit()) or 8192)
    samples, batch = int(row["local_batch"]), int(row["global_batch"] or int(row["local_batch"]) * dp)
    return dict(model=name, seq=sequence, dtype="bf16", cluster=cluster("grand-teton"), dp=dp, tp=tp, pp=pp,
                sp=int(tp > 1), zero=3 if dp > 1 else 0, microbatch=samples if pp == 1 else 1, global_batch=batch,
                recompute=row["activation_ckpt"] or "none",
                seconds=batch * sequence / float(row["tokens_per_s_per_gpu"]) / int(row["gpus"]),
                bytes=float(row["peak_mem_gib"]) * 2**30 if row["peak_mem_gib"] else "", group=f"{row['table']}-{row['variant']}",
                framework="torchtitan-2024-compile" if "compile" in row["variant"] + row["setup"] else "torchtitan-2024")


def sailor(row):
    if row["cluster"] != "clariden":
        raise Excluded("GPUs of several kinds, model not verified")
    tensor = set(row["tp_per_stage"].split(";"))
    data = set(row["dp"].split(";"))
    if len(tensor) > 1 or len(data) > 1:
        raise Excluded("degrees differ by stage")
    if row["model"] not in SAILOR:
        raise Excluded("unknown model")
    layers, width, heads, vocabulary = SAILOR[row["model"]]
    dealt = [int(n) for n in row["layers_per_stage"].split(";")]
    dealt[0] -= 1  # OPT-350: 26 are the 24 layers between the embedding and the head
    dealt[-1] -= 1
    return dict(layers=layers, hidden=width, heads=heads, seq=2048, vocab=vocabulary,
                stage_layers=";".join(map(str, dealt)), tied=1, dropout=0.1, dtype="fp16",
                cluster=cluster("clariden"), dp=data.pop(), tp=tensor.pop(), pp=row["pp"],
                microbatch=row["microbatch"], global_batch=row["global_batch"], seconds=row["iter_s"],
                bytes=row["peak_mem_bytes"], group=row["nodes_field"])


def mosaicml(row):
    if "fp8" in row["Precision"]:
        raise Excluded("FP8")
    if row["Sharding Strategy"] != "FULL_SHARD" or row["Activation CPUOffload"] != "False":
        raise Excluded("not plain FSDP")
    if row["Model"] not in MPT:
        raise Excluded("unknown model")
    layers, width, heads = MPT[row["Model"]]
    gpus = int(row["# GPUs"])
    tokens = float(row["Throughput (T/s/GPU)"]) * gpus
    where = {"h100_80gb": "h100-roce", "a100_80gb": "a100-80g-roce", "a100_40gb": "a100-40g-roce"}[row["GPU"]]
    return dict(layers=layers, hidden=width, heads=heads, seq=row["SeqLen (T)"], vocab=MPT_VOCABULARY, tied=1,
                dropout=0, dtype="bf16", cluster=cluster(where), dp=gpus, zero=3, microbatch=row["MicroBatchSize"],
                global_batch=row["GlobalBatchSize"],
                recompute="full" if row["Activation Checkpointing"] == "True" else "none",
                seconds=float(row["GlobalBatchSize (T)"]) / tokens, group=f"{row['Model']}-{row['SeqLen (T)']}",
                framework="llm-foundry-2023" + MPT_VARIANT.get((row["MP Mode"], where), ""),
                part=row["GPU"])


OASES = {1024: (24, 16, 2, 256), 2048: (24, 32, 4, 128), 3072: (24, 48, 4, 32), 4096: (16, 64, 4, 32),
         6144: (16, 96, 8, 8), 8192: (8, 128, 8, 8), 12288: (4, 192, 8, 8)}  # Table 4: layers, heads, TP, batch


def oases(row):
    """Declared: 16 bits, full recompute (as the paper's Section 3 has it), and all samples of a replica at once."""
    if int(row["hidden"]) not in OASES:
        raise Excluded("not in Table 4")
    layers, heads, tp, batch = OASES[int(row["hidden"])]
    where = {"NVLink 3090": "rtx3090-nvlink-32", "3090": "rtx3090-32"}[row["cluster"]]
    return dict(layers=layers, hidden=row["hidden"], heads=heads, seq=1024, vocab=50257, tied=1, dropout=0.1,
                dtype="fp16", cluster=where, tp=tp, dp=32 // tp, microbatch=batch * tp // 32, global_batch=batch,
                recompute="full", seconds=batch * 1024 / (float(row["ktokens_per_s"]) * 1e3), group=row["hidden"],
                part=where)


class Kind:
    """columns: that tell the kind; share: of groups fitted on, by seed (0: leave one group out, or one of so many folds of
    groups, by seed); sisters: a cluster's constants start from those fitted to the file's other clusters."""

    def __init__(self, title, columns, convert, framework, fit, share, targets, sisters=False, folds=0):
        self.sisters, self.folds = sisters, folds
        self.title, self.columns, self.convert = title, columns, convert
        self.framework, self.fit, self.share, self.targets = framework, fit, share, targets

    def slug(self):
        return self.title.lower().replace(" ", "-")

    def constants(self, rows):
        """Those to fit: where all rows leave their node, the way out in place of latencies within."""
        devices = [int(r["dp"]) * int(r["tp"]) * int(r["pp"]) for r in rows if "tp" in r and "pp" in r]
        away = devices and min(devices) > 8
        return self.fit.replace("inner_seconds", "outer_fraction") if away else self.fit


KINDS = [
    Kind("vTrain", ("iter_ms", "tp", "dp", "pp", "microbatch"), vtrain, "megatron-deepspeed-2023", FIT_ALL, 0.10,
         {"median": 0.06, "mean": 0.10, "spearman": 0.95, "regret": 0.03, "regret95": 0.08}),
    Kind("Megatron sequence parallel", ("iter_s_published", "interleave", "mode"), sequence_parallel,
         "megatron-sp-2022", "gemm_fraction,memory_fraction,inner_fraction", 0, {"mean": 0.03, "worst": 0.06}),
    Kind("SC21", ("tflops_per_gpu", "derived_iter_s", "tp", "pp"), sc21, "megatron-2021",
         "gemm_fraction,memory_fraction", 0.2, {"mean": 0.06}),
    Kind("torchtitan", ("tokens_per_s_per_gpu", "peak_mem_gib", "variant"), torchtitan, "torchtitan-2024",
         "gemm_fraction,memory_fraction", 0, {"mean": 0.08, "bytes mean": 0.08}),
    Kind("Sailor GH200", ("peak_mem_bytes", "tp_per_stage"), sailor, "sailor-2025",
         FIT_ALL, 0,
         {"mean": 0.08, "bytes mean": 0.05}),
    Kind("MosaicML", ("MicroBatchSize", "MFU", "GPU"), mosaicml, "llm-foundry-2023",
         "gemm_fraction,gemm_half,memory_fraction,kernel_seconds,outer_fraction,step_seconds", 0, {"median": 0.08},
         folds=5),
    Kind("Oases", ("ktokens_per_s", "hidden", "cluster"), oases, "megatron-ddp-2021",
         "gemm_fraction,inner_fraction,outer_fraction", 0, {"median": 0.10}, sisters=True),
]
FIGURES = ("layers", "hidden", "heads", "seq", "dp", "tp", "pp", "microbatch", "global_batch")  # of a row, where it has them


# ---- protocols ----

def protocol(kind, rows, seed):
    """(rows to fit on, rows to report) by turns."""
    groups = sorted({r["group"] for r in rows})
    if kind.share:
        wanted = min(max(2, math.ceil(kind.share * len(groups))), len(groups) - 1)  # one at least is predicted
        chosen = set(random.Random(seed).sample(groups, wanted))
        fit = [r for r in rows if r["group"] in chosen]
        return [(fit, [r for r in rows if r["group"] not in chosen])]
    if kind.folds:
        random.Random(seed).shuffle(groups)
        groups = [groups[k :: kind.folds] for k in range(min(kind.folds, len(groups)))]
        return [([r for r in rows if r["group"] not in held], [r for r in rows if r["group"] in held]) for held in groups]
    return [([r for r in rows if r["group"] != g], [r for r in rows if r["group"] == g]) for g in groups]


# ---- report ----

def show(name, value, targets):
    if name == "spearman":
        text, good = f"{value:.3f}", value >= targets.get(name, -1)
        goal = f" (at least {targets[name]:.2f})" if name in targets else ""
    elif name == "coverage":
        text, good, goal = f"{100 * value:.0f} %", 0.85 <= value <= 0.95, " (85 to 95 %)"
    else:
        limit = 0.20 if name == "width" else targets.get(name)
        text, good = f"{100 * value:.1f} %", limit is None or value <= limit
        goal = f" (at most {100 * limit:.0f} %)" if limit is not None else ""
    return f"{name} {text}{goal}{'' if good else ' MISSED'}", good


def label(answer):
    keys = ("model", "layers", "hidden", "seq", "dp", "tp", "pp", "sp", "microbatch", "global_batch", "recompute")
    return " ".join(f"{k} {answer[k]}" for k in keys if answer.get(k) not in (None, "", "0", "1"))


def read_kind(path):
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as text:
        table = csv.DictReader(line for line in text if not line.startswith("#"))
        columns = table.fieldnames or []
        kind = next((k for k in KINDS if all(c in columns for c in k.columns)), None)
        return kind, list(table)


def positive(text, what):
    """A finite number above zero."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not 0.0 < value < math.inf:
        raise Excluded(f"{what} is not a number above 0")
    return value


def convert(kind, table):
    """(rows for galplan, Counter of reasons why others are none)"""
    used, excluded = [], collections.Counter()
    for row in table:
        try:
            out = kind.convert(row)
            out["seconds"] = positive(out["seconds"], "what was measured")
            if out.get("bytes"):
                out["bytes"] = positive(out["bytes"], "what was measured")
            if any(str(out.get(k, 1)).strip() in ("", "None") for k in FIGURES):
                raise Excluded("a figure is missing or no number")
            out.setdefault("framework", kind.framework)
            out.setdefault("part", "")
            used.append(out)
        except Excluded as reason:
            excluded[str(reason)] += 1
        except KeyError as missing:
            excluded[f"{missing.args[0]}: no such column or name is known"] += 1
        except (TypeError, ValueError, ZeroDivisionError, AttributeError):
            excluded["a figure is missing or no number"] += 1
    return used, excluded


def vet(build, rows, excluded):
    """The rows that galplan estimate answers; the others are counted, with what it says of them."""
    kept = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for framework in sorted({r["framework"] for r in rows}):
            left = [r for r in rows if r["framework"] == framework]
            while left:
                try:
                    answers = predict(build, folder, (), left)
                except RuntimeError as error:
                    at = re.search(r"rows\.csv:(\d+): (.*)", str(error))
                    if at is None:
                        raise
                    excluded[at[2]] += 1
                    left.pop(int(at[1]) - 2)  # line 1 names the columns
                    continue
                for row, answer in zip(left, answers):
                    if answer["refused"]:
                        excluded[answer["refused"]] += 1
                    else:
                        kept.append(row)
                break
    return kept


def evaluate(build, kind, rows, seed, fresh=False):
    """Every part (a cluster) apart: its constants are fitted to its own rows alone, beginning at those at hand unless fresh."""
    answers, fitted = [], 0
    unknown = not fresh and not at_hand.knows(kind.slug(), rows)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for part in sorted({r["part"] for r in rows}):
            start = at_hand.start(kind.slug(), next(r for r in rows if r["part"] == part)["cluster"]) if unknown else ()
            if start:
                print(f"  none of the rows is one that {start[1].name} was fitted to: {part or 'they'} begin there")
            elif kind.sisters:
                start = calibrate(build, folder, kind.constants, [r for r in rows if r["part"] != part], name="sister.json")
            for fit, rest in protocol(kind, [r for r in rows if r["part"] == part], seed):
                fitted += len(fit) if kind.share else 0
                answers += predict(build, folder, calibrate(build, folder, kind.constants, fit, start), rest)
    return answers, fitted


# ---- the folder ----

def write_constants(build, files):
    """What at_hand.py has: of every kind and cluster of the files' rows, fitted to all of them."""
    fitted = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for path in files:
            kind, table = read_kind(path)
            if kind is None and table and all(c in table[0] for c in galvatron_cells.COLUMNS):
                cells = galvatron_cells.vet(table)[0]
                for name, constants in galvatron_cells.fit_clusters(build, folder, cells).items():
                    at_hand.keep(galvatron_cells.SLUG, name, constants)
                fitted[galvatron_cells.SLUG] = cells
            elif kind is not None:
                rows, excluded = convert(kind, table)
                rows = fitted[kind.slug()] = vet(build, rows, excluded)
                for where in sorted({r["cluster"] for r in rows}):
                    here = [r for r in rows if r["cluster"] == where]
                    at_hand.keep(kind.slug(), where, calibrate(build, folder, kind.constants, here))
    at_hand.remember(fitted)


def how_short(kind, fitted):
    if kind.share:
        return f"{fitted} rows, {kind.share:.0%} of groups"
    return f"{kind.folds} folds of groups" if kind.folds else "all but one group, by turns"


def report(build, path, seed, verbose, fresh):
    try:
        kind, table = read_kind(path)
    except (OSError, csv.Error) as broken:
        print(f"{path.name}: left out: {broken}")
        return 0, 0, None
    if kind is None and table and all(c in table[0] for c in galvatron_cells.COLUMNS):
        return galvatron_cells.report(build, path, table, seed, verbose, fresh)
    if kind is None:
        print(f"{path.name}: {len(table)} rows, of no kind that is known here: left out")
        return 0, 0, None
    rows, excluded = convert(kind, table)
    rows = vet(build, rows, excluded)
    print(f"{path.name} ({kind.title}): {len(table)} rows, {len(rows)} used"
          + "".join(f"; {n} excluded: {why}" for why, n in sorted(excluded.items())))
    line = {"file": path.name, "rows": len(table), "used": len(rows)}
    if not rows:
        return 0, 0, line
    answers, fitted = evaluate(build, kind, rows, seed, fresh)
    how = "leaving one group out"
    if kind.share:
        how = f"to {fitted} rows of {kind.share:.0%} of the groups, seed {seed}"
    elif kind.folds:
        how = f"in {kind.folds} folds of groups, seed {seed}"
    print(f"  {len(kind.fit.split(','))} constants fitted {how}: {kind.constants(rows)}")
    print(f"  frameworks: {', '.join(sorted({r['framework'] for r in rows}))}; {len(answers)} rows predicted")
    met = missed = 0
    shown, known = [], figures(answers)
    line.update(known, fitted=how_short(kind, fitted), predicted=len(answers))
    for name, value in known.items():
        text, good = show(name, value, kind.targets)
        shown.append(text)
        if name in kind.targets or name in ("coverage", "width"):
            met, missed = met + good, missed + (not good)
    print("  " + "; ".join(shown))
    worst = sorted(answers, key=lambda a: -abs(math.log(float(a["estimated_seconds"]) / float(a["seconds"]))))
    for a in worst if verbose else worst[:3]:
        ratio = float(a["estimated_seconds"]) / float(a["seconds"]) - 1.0
        memory = f", bytes {100 * (float(a['estimated_bytes']) / float(a['bytes']) - 1):+.1f} %" if a.get("bytes") else ""
        print(f"    {'' if verbose else 'worst: '}{100 * ratio:+.1f} %{memory}: {label(a)}")
    for regret, chosen, fastest in worst_regrets(answers, len(answers) if verbose else 3):
        if "regret" in kind.targets and regret > 0.0:
            print(f"    {100 * regret:.1f} % slower than the fastest is the one chosen: {label(chosen)}; the fastest: {label(fastest)}")
    return met, missed, line


TABLE = ("median", "mean", "worst", "spearman", "regret", "regret95", "bytes mean", "oom", "coverage", "width")


def print_table(lines):
    """One line per file, of what stands above; -: there is no such figure."""
    def figure(line, name):
        value = line.get(name)
        if value is None or isinstance(value, str) or math.isnan(value):
            return value if isinstance(value, str) else "-"
        return f"{value:.3f}" if name == "spearman" else f"{100 * value:.1f} %"

    print(f"\n{'':32}{'rows':>6}{'used':>6}  {'calibrated on':32}{'predicted':>9}" + "".join(f"{name:>11}" for name in TABLE))
    for line in lines:
        print(f"{line['file']:32}{line['rows']:>6}{line['used']:>6}  {line.get('fitted', '-'):32}{line.get('predicted', 0):>9}"
              + "".join(f"{figure(line, name):>11}" for name in TABLE))


def main():
    arguments = [a for a in sys.argv[1:] if a not in ("-v", "--fresh")]
    build, data = pathlib.Path(arguments[0]), pathlib.Path(arguments[1])
    if len(arguments) > 3 and arguments[2] == "--tables":
        galvatron_cells.write_tables(build, data, arguments[3])
        return 0
    files = sorted(data.glob("*.csv"))
    if not files:
        print(f"{data}: {'no CSV file in this folder' if data.is_dir() else 'no such folder'} of published measurements")
        return 1 if os.environ.get("CI") else 77
    if len(arguments) > 2 and arguments[2] == "--constants":
        write_constants(build, files)
        return 0
    seed = int(arguments[2]) if len(arguments) > 2 else 1
    met = missed = 0
    lines = []
    for path in files:
        one = report(build, path, seed, "-v" in sys.argv, "--fresh" in sys.argv)
        met, missed = met + one[0], missed + one[1]
        lines += [one[2]] if one[2] else []
    print_table(lines)
    print(f"{met} targets met, {missed} missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
