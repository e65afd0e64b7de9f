#!/usr/bin/env python3
"""Searches of a list of cases, and the comparison of two such lists: what a change of the planner gains and loses.

Usage: tests/bench/planner_baseline.py run GALPLAN OUT.tsv [-g GROUP]... [-a ARGUMENT]... [-l SECONDS] [-j JOBS] [-w WORD]...
       tests/bench/planner_baseline.py compare A.tsv B.tsv [-w WORD]...
       tests/bench/planner_baseline.py list [-g GROUP]... [-w WORD]...

A case is one `galplan search`. Groups: bf16 and fp32 (every catalogue model on every catalogue cluster), axes (18 searches
with every axis), memory (12 with little memory), offload (6), links (20 with slow links between machines), targets (those that an aim is stated
for). WORD: cases whose names hold every word. -a: a further argument of every search. -l: processor seconds after which a search is
stopped (60). run appends to OUT.tsv and skips the cases that are in it, so it can be stopped and begun again. compare
prints, over the cases that both files answered, B's simulated samples per second over A's, and the sums of processor
seconds; cases that one file alone answered are named. Exit 1 if B is more than 0.5 % slower anywhere."""
import argparse
import concurrent.futures
import json
import os
import sys
import tempfile
import threading

from one_search import once

CATALOGUE = os.path.join(os.path.dirname(__file__), "..", "..", "schemas", "catalogue")
COLUMNS = ["case", "answer", "simulated_samples_per_second", "objective_samples_per_second", "gap", "cpu_seconds",
           "resident_megabytes", "pp_degree", "microbatch_count", "rows", "kinds"]
WORST_RATIO = 0.995
TOLD = 12
AXES = "dp,sdp,tp,sp,recompute,selective,ulysses,ring,zigzag,2d,2.5d,3d,keep,stepped,overlap"
AXES_MODELS = ["gpt2-xl", "bert-huge-32", "t5-large-48", "llama2-7b", "swin-huge-32", "vit-huge-32"]
# model, cluster, dtype, GiB of a device (None: the cluster's)
MEMORY = [("qwen2-7b", "l4-8", "fp32", None), ("vit-64l-h3072", "v100-8", "fp32", None),
          ("swin-huge-48", "a100-16", "fp32", 12), ("bert-huge-32", "rtx3090-nvlink-32", "fp32", None),
          ("qwen2-7b", "l4-8", "bf16", 16), ("llama2-7b", "h100-8", "bf16", 16), ("llama2-13b", "a100-8", "bf16", 32),
          ("gpt3-15b", "a100-16", "bf16", 20), ("t5-large-48", "v100-8", "fp32", 16),
          ("llama3-8b", "rtx3090-32", "bf16", 12), ("gpt2-xl", "titan-8", "fp32", 8), ("gpt3-39b", "a100-64", "bf16", 24)]
OFFLOAD = [("gpt2-xl", "titan-8", "fp32"), ("llama2-7b", "l4-8", "bf16"), ("bert-xhuge", "a100-8", "fp32"),
           ("qwen2-7b", "rtx3090-32", "fp32"), ("vit-xhuge", "a100-8", "fp32"), ("t5-large-48", "titan-8", "fp32")]
LINKS_MODELS = ["llama3-8b", "qwen2-7b", "gpt2-xl", "t5-large-48", "bert-huge-48"]
LINKS_CLUSTERS = ["h100-64", "a100-64"]
LINKS_SHARES = [4, 16]  # the outermost level is so many times slower
TARGETS = [("llama3-70b", "h100-64", 128), ("llama3-70b", "b200-64", 128), ("llama2-70b", "h100-64", 128),
           ("qwen2-7b", "h100-64", 64), ("llama3-8b", "h100-8", 128)]


def names(kind):
    return sorted(f[:-5] for f in os.listdir(os.path.join(CATALOGUE, kind)) if f.endswith(".json"))


def document(kind, name):
    with open(os.path.join(CATALOGUE, kind, name + ".json"), encoding="utf-8") as text:
        return json.load(text)


def batch_of(cluster):
    return max(16, document("clusters", cluster)["device_count"])


def case(group, model, cluster, dtype, batch=None, slower=1, arguments=()):
    """The name says all that differs."""
    batch = batch or batch_of(cluster)
    words = [group, model, "on", cluster, dtype, f"batch {batch}"]
    words += [f"links/{slower}"] if slower > 1 else []
    words += [" ".join(arguments)] if arguments and group != "axes" else []
    return {"name": " ".join(words), "group": group, "model": model, "cluster": cluster, "dtype": dtype,
            "batch": batch, "slower": slower, "arguments": list(arguments)}


def all_cases():
    for dtype in ("bf16", "fp32"):
        for cluster in names("clusters"):
            for model in names("models"):
                yield case(dtype, model, cluster, dtype)
    for cluster, batch in (("h100-8", 16), ("a100-64", 64), ("h100-1024", 1024)):
        for model in AXES_MODELS:
            yield case("axes", model, cluster, "fp32", batch, arguments=["--space", AXES])
    for model, cluster, dtype, gib in MEMORY:
        yield case("memory", model, cluster, dtype, arguments=["--memory", f"{gib}GiB"] if gib else [])
    for model, cluster, dtype in OFFLOAD:
        space = "dp,sdp,tp,sp,recompute,selective,offload"
        yield case("offload", model, cluster, dtype, arguments=["--space", space])
    for model, cluster, batch in TARGETS:
        yield case("targets", model, cluster, "bf16", batch)
    for model in LINKS_MODELS:
        for cluster in LINKS_CLUSTERS:
            for slower in LINKS_SHARES:
                yield case("links", model, cluster, "bf16", slower=slower)


def wanted(groups, words):
    return [c for c in all_cases() if (not groups or c["group"] in groups) and all(w in c["name"] for w in words)]


# ---- run ----


def write_document(folder, name, value):
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="utf-8") as text:
        json.dump(value, text)
    return path


def documents_of(c, folder):
    """Paths of the case's model and cluster, or catalogue names where they are as they ship."""
    model, cluster = c["model"], c["cluster"]
    own = document("models", model)
    if own["compute_dtype"] != c["dtype"]:
        model = write_document(folder, model, dict(own, compute_dtype=c["dtype"]))
    if c["slower"] > 1:
        slow = document("clusters", cluster)
        slow["levels"][-1]["bytes_per_second"] /= c["slower"]
        cluster = write_document(folder, cluster, slow)
    return model, cluster


def kind_of(row):
    """What a row of the layout says of its blocks, whichever and however many they are."""
    return tuple(str(row.get(key)) for key in ("strategy", "attention", "ffn"))


def row_of(c, cpu_seconds, megabytes, found):
    rows = found["layout"]
    kinds = max(len({kind_of(r) for r in rows if r["stage"] == s}) for s in {r["stage"] for r in rows})
    rates = [found["global_batch_samples"] / found[key] for key in ("simulated_seconds", "objective_seconds")]
    return [c["name"], "plan", f"{rates[0]:.6g}", f"{rates[1]:.6g}", f"{found['optimality_gap']:.5f}",
            f"{cpu_seconds:.3f}", f"{megabytes:.0f}", found["pp_degree"], found["microbatch_count"], len(rows), kinds]


def search(galplan, c, further, limit):
    """The row; samples per second of a case that a limit or an error ended are empty."""
    with tempfile.TemporaryDirectory() as folder:
        model, cluster = documents_of(c, folder)
        arguments = ["--model", model, "--cluster", cluster, "--batch", str(c["batch"]), "--jobs", "1"]
        try:
            took, cpu, megabytes, found = once(galplan, arguments + c["arguments"] + further, limit)
        except SystemExit as failed:
            return [c["name"], "error: " + str(failed).split(": ")[-1]] + [""] * (len(COLUMNS) - 2)
    if took is None:
        return [c["name"], "stopped", "", "", "", limit, f"{megabytes:.0f}", "", "", "", ""]
    if found is None:
        return [c["name"], "none", "", "", "", f"{cpu:.3f}", f"{megabytes:.0f}", "", "", "", ""]
    return row_of(c, cpu, megabytes, found)


def run(options):
    known = set()
    if os.path.exists(options.out):
        known = set(read(options.out))
    else:
        with open(options.out, "w", encoding="utf-8") as text:
            text.write("\t".join(COLUMNS) + "\n")
    lock = threading.Lock()

    def one(c):
        row = search(options.galplan, c, options.argument, options.limit)
        with lock, open(options.out, "a", encoding="utf-8") as text:
            text.write("\t".join(str(cell) for cell in row) + "\n")

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, [c for c in wanted(options.group, options.word) if c["name"] not in known]))


# ---- compare ----


def read(path):
    with open(path, encoding="utf-8") as text:
        rows = [line.rstrip("\n").split("\t") for line in text]
    return {r[0]: dict(zip(COLUMNS, r)) for r in rows[1:]}


def stray(row):
    """How far the objective is from the simulation, as a share of the simulated seconds."""
    return abs(float(row["simulated_samples_per_second"]) / float(row["objective_samples_per_second"]) - 1)


def describe(label, rows):
    strays = sorted(stray(r) for r in rows)
    gaps = sorted(float(r["gap"]) for r in rows)
    lines = sorted(int(r["rows"]) for r in rows)
    middle = len(rows) // 2
    print(f"{label}: |simulated - objective| median {100 * strays[middle]:.2f} %, worst {100 * strays[-1]:.1f} %; gap median "
          f"{100 * gaps[middle]:.2f} %; rows median {lines[middle]}, most {lines[-1]}")


def compare(options):
    a, b = ({n: r for n, r in read(p).items() if all(w in n for w in options.word)} for p in (options.a, options.b))
    both = [n for n in a if n in b and a[n]["answer"] == b[n]["answer"] == "plan"]
    for n in a:
        if n in b and a[n]["answer"] != b[n]["answer"]:
            print(f"{n}: {a[n]['answer']}, {b[n]['answer']}")
    if not both:
        sys.exit("no case that both answered")
    rate = "simulated_samples_per_second"
    ratios = sorted((float(b[n][rate]) / float(a[n][rate]), n) for n in both)
    values = [r for r, _ in ratios]
    cpu = [sum(float(rows[n]["cpu_seconds"]) for n in both) for rows in (a, b)]
    print(f"{len(both)} cases: samples/s least {values[0]:.4f}, median {values[len(values) // 2]:.4f}, most {values[-1]:.4f}; "
          f"better or equal on {100 * sum(v >= 0.9999 for v in values) / len(values):.1f} %, below {WORST_RATIO} on "
          f"{sum(v < WORST_RATIO for v in values)}; processor seconds {cpu[0]:.1f}, {cpu[1]:.1f}")
    describe("A", [a[n] for n in both])
    describe("B", [b[n] for n in both])
    for ratio, n in ratios[:TOLD] + ratios[-3:]:
        print(f"  {ratio:.4f}  {n}: {a[n][rate]}, {b[n][rate]}; P {a[n]['pp_degree']}, {b[n]['pp_degree']}; m "
              f"{a[n]['microbatch_count']}, {b[n]['microbatch_count']}; rows {a[n]['rows']}, {b[n]['rows']}; "
              f"{a[n]['cpu_seconds']} s, {b[n]['cpu_seconds']} s")
    sys.exit(values[0] < WORST_RATIO)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    commands = parser.add_subparsers(dest="command", required=True)
    parsers = {name: commands.add_parser(name) for name in ("run", "compare", "list")}
    parsers["run"].add_argument("galplan")
    parsers["run"].add_argument("out")
    parsers["run"].add_argument("-a", "--argument", action="append", default=[])
    parsers["run"].add_argument("-l", "--limit", type=int, default=60)
    parsers["run"].add_argument("-j", "--jobs", type=int, default=2)
    parsers["compare"].add_argument("a")
    parsers["compare"].add_argument("b")
    for name in ("run", "list"):
        parsers[name].add_argument("-g", "--group", action="append", default=[])
    for p in parsers.values():
        p.add_argument("-w", "--word", action="append", default=[])
    options = parser.parse_args()
    if options.command == "list":
        for c in wanted(options.group, options.word):
            print(c["name"])
    else:
        {"run": run, "compare": compare}[options.command](options)


main()
