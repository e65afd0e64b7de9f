#!/usr/bin/env python3
"""test_galvatron_tables.py BUILD: the committed predictions of Galvatron-BMW's tables (galvatron_tables.csv; published.py
--tables renews them). Every cell of Tables II to VI is there once and whole; a strategy that may choose whatever another
may is never slower; more memory is never slower; no more microbatches than the policy allows. Exit 1 if one is not so."""
import csv
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import galvatron  # noqa: E402

TABLES = pathlib.Path(__file__).resolve().parent / "galvatron_tables.csv"
REQUIRED = ("table", "cluster", "gpus", "memory_gb", "strategy", "model", "samples_per_s", "batch", "oom", "partition")
# strategy -> whose plans are its own too. Microbatches are declared alike: of GPipe and of 1F1B they differ with stages,
# and 1F1B's partitions are not GPipe's even ones, so what uses one may be slower than what uses the other in stages.
CONTAINS = {"DP+TP": ("DP", "TP"), "DP+PP": ("DP", "PP"), "Galvatron": ("SDP", "DeepSpeed-3D", "DP+TP", "DP+PP"),
            "Galvatron-Base": ("Galvatron",), "1F1B+Bi-obj": ("SDP", "DP+TP", "1F1B+Mem", "1F1B+Time"),
            "Galvatron-BMW": ("1F1B+Bi-obj",)}


def verdict(name, wrong):
    print(f"ok {name}" if not wrong else f"not ok {name}: {'; '.join(wrong[:5])} ({len(wrong)} in all)")
    return not wrong


def rate(row):
    """Samples per second; 0: out of memory."""
    return float(row["samples_per_s"]) if row["oom"] == "0" else 0.0


def identity(row, *without):
    return tuple(row[k] for k in ("table", "cluster", "gpus", "memory_gb", "strategy", "model") if k not in without)


def check_form(rows, names):
    wrong = [] if tuple(names[:len(REQUIRED)]) == REQUIRED and tuple(names) == galvatron.COLUMNS else [f"columns {names}"]
    seen = sorted(identity(r) for r in rows)
    if seen != sorted(identity(c) for c in galvatron.cells()):
        wrong.append("not every cell of the paper's tables once")
    for row in rows:
        fields = [row[k] for k in ("samples_per_s", "batch", "microbatch_count", "microbatches")]
        if row["oom"] == "1":
            whole = not any(fields) and not row["partition"]
        else:
            whole = all(fields) and 0.0 < float(row["samples_per_s"]) < math.inf and int(row["batch"]) % galvatron.BATCH_STEP == 0
        if not whole:
            wrong.append(f"{identity(row)}: {row}")
    return wrong


def check_partitions(rows):
    """Of Table V: so many layers in all."""
    return [f"{identity(r)}: {r['partition']}" for r in rows if r["partition"] and
            sum(map(int, r["partition"].split(";"))) != galvatron.layer_count(r["model"])]


def check_spaces(rows):
    by = {identity(r): rate(r) for r in rows}
    wrong = []
    for row in rows:
        for inner in CONTAINS.get(row["strategy"], ()):
            other = by.get(identity(dict(row, strategy=inner)))
            if other is not None and rate(row) < other:
                wrong.append(f"{identity(row)}: {rate(row)}, but {inner} {other}")
    return wrong


def check_memory(rows):
    wrong = []
    for row in rows:
        for other in rows:
            more = identity(row, "memory_gb") == identity(other, "memory_gb") and int(other["memory_gb"]) > int(row["memory_gb"])
            if more and rate(other) < rate(row):
                wrong.append(f"{identity(row)}: {rate(row)}, with {other['memory_gb']} GB {rate(other)}")
    return wrong


def check_policy(rows):
    return [f"{identity(r)}: {r['microbatch_count']} of {r['microbatches']}" for r in rows if r["oom"] == "0" and
            max(map(int, r["microbatch_count"].split(";"))) > int(r["microbatches"].removeprefix("max:"))]


def main():
    with open(TABLES, newline="", encoding="utf-8") as text:
        table = csv.DictReader(text)
        rows = list(table)
    good = verdict("every cell once and whole", check_form(rows, table.fieldnames))
    good &= verdict("partitions have all layers", check_partitions(rows))
    good &= verdict("what may choose more is never slower", check_spaces(rows))
    good &= verdict("more memory is never slower", check_memory(rows))
    good &= verdict("microbatches keep to the policy", check_policy(rows))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
