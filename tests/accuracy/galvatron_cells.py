"""Galvatron-BMW's cells: predicted beside what was published, and predicted into a file (galvatron.py says how one is
answered)."""
import collections
import csv
import math
import pathlib
import random
import tempfile

import at_hand
import galvatron
from galplan import calibrate, predict
from scores import median

SLUG = "galvatron-bmw"
COLUMNS = ("strategy", "samples_per_s", "oom", "memory_gb")
FOLDS = 5
SISTERS = {"a100-64": "a100-16", "a100-80g-32": "a100-16"}  # Tables IV and VI, Table III
SISTER_FIT = "gemm_fraction"  # of Table VI, to its own cells; Table IV's has none
FIT = "gemm_fraction,memory_fraction,kernel_seconds,inner_fraction,outer_fraction,overlap_slowdown"


def search_cells(build, folder, constants, cells):
    """galvatron.Found of each cell, None: out of memory. The cells of a model share what is estimated."""
    known = {}
    for shared in sorted({galvatron.estimated_with(c) for c in cells}):
        of_model = [c for c in cells if galvatron.estimated_with(c) == shared]
        pure_only = all(c["strategy"] in galvatron.PURE for c in of_model)
        framework = galvatron.framework_of(of_model[0])

        def estimate(rows, framework=framework):
            return predict(build, folder, constants, [dict(r, framework=framework) for r in rows])

        dealt = {} if pure_only else galvatron.partitions(of_model[0], estimate)
        known[shared] = galvatron.options(estimate(galvatron.candidates(of_model[0], dealt, pure_only)))
    return [galvatron.best(cell, known[galvatron.estimated_with(cell)]) for cell in cells]


def vet(table):
    """(cells that can be searched, Counter of reasons why others cannot)"""
    used, excluded = [], collections.Counter()
    for cell in table:
        try:
            galvatron.check(cell)
            if cell["oom"] != "1":
                if not 0.0 < float(cell["samples_per_s"] or math.nan) < math.inf or int(cell["batch"]) < 1:
                    raise ValueError("samples_per_s or batch is not a number above 0")
            used.append(cell)
        except ValueError as reason:
            excluded[str(reason)] += 1
    return used, excluded


def refit(build, folder, start, rows):
    """A cluster's constants from those of one like it, `start`: one is fitted to its own rows, if it has any."""
    return calibrate(build, folder, lambda _: SISTER_FIT, rows, start, name="refitted.json")


def report(build, path, table, seed, verbose, fresh):
    """Of every cluster in 5 folds of cells, constants fitted to the others. Those of Tables IV and VI start from Table
    III's A100 constants, and one is fitted to the other cells of the cluster; of a file of other cells than those at hand
    were fitted to nothing is fitted. Every cell is searched for its best batch, so batch and out-of-memory are predictions
    too."""
    found, whole = [], len(table)
    table, excluded = vet(table)
    print(f"{path.name} (Galvatron-BMW): {whole} cells, {len(table)} used"
          + "".join(f"; {n} excluded: {why}" for why, n in sorted(excluded.items())))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        parts = collections.defaultdict(list)
        for cell in table:
            parts[galvatron.cluster_of(cell["cluster"])].append(cell)
        measured = {name: [r for r in map(galvatron.measured_row, cells) if r] for name, cells in parts.items()}
        known = fresh or at_hand.knows(SLUG, table)
        for name, cells in sorted(parts.items()):
            sister = measured.get(SISTERS.get(name))
            start = () if known else at_hand.start(SLUG, name)
            if start:
                print(f"  none of the cells is one that {start[1].name} was fitted to: {len(cells)} predicted by it")
                found += zip(cells, search_cells(build, folder, start, cells))
                continue
            if sister:
                start = calibrate(build, folder, lambda _: FIT, sister, name="sister.json")
                for cell in cells:
                    own = galvatron.measured_row(cell) or {"group": None}
                    others = [r for r in measured[name] if r["group"] != own["group"]]
                    found += zip([cell], search_cells(build, folder, refit(build, folder, start, others), [cell]))
                continue
            random.Random(seed).shuffle(cells)
            for fold in range(FOLDS):
                held = cells[fold::FOLDS]
                apart = {r["group"] for r in map(galvatron.measured_row, held) if r}
                others = [r for r in measured[name] if r["group"] not in apart]
                if held:
                    found += zip(held, search_cells(build, folder, calibrate(build, folder, lambda _: FIT, others), held))
    if known:
        print(f"  6 constants per cluster fitted in {FOLDS} folds of cells, seed {seed}: {FIT}; "
              f"{', '.join(SISTERS)}: those of a100-16, and {SISTER_FIT} to the cluster's other cells")
    line = {"file": path.name, "rows": whole, "used": len(table), "predicted": len(found)}
    if not found:
        return 0, 0, line
    right = sum((best is None) == (cell["oom"] == "1") for cell, best in found)
    both = [(c, b, b.samples_per_s / float(c["samples_per_s"]) - 1.0) for c, b in found if b is not None and c["oom"] != "1"]
    pure = [abs(e) for c, _, e in both if c["strategy"] in galvatron.PURE] or [math.nan]
    every = [abs(e) for _, _, e in both] or [math.nan]
    batch = [abs(math.log(b.batch / int(c["batch"]))) for c, b, _ in both]
    print(f"  out of memory {right} of {len(found)} right (wanted: all){'' if right == len(found) else ' MISSED'}; throughput "
          f"median {100 * median(every):.1f} % (at most 8 %){' MISSED' if median(every) > 0.08 else ''}, mean "
          f"{100 * sum(every) / len(every):.1f} %; of pure strategies median {100 * median(pure):.1f} %; batch within "
          f"10 % in {sum(b < 0.1 for b in batch)} of {len(batch)}")
    for cell, best in found:
        if (best is None) != (cell["oom"] == "1"):
            print(f"    wrong on memory: {cell['table']} {cell['memory_gb']} GB {cell['strategy']} {cell['model']}")
    both.sort(key=lambda entry: -abs(entry[2]))
    for cell, best, error in both if verbose else both[:4]:
        print(f"    {100 * error:+.1f} %: {cell['table']} {cell['memory_gb']} GB {cell['strategy']} {cell['model']}, batch "
              f"{best.batch} (published {cell['batch']})")
    line.update(fitted=f"{FOLDS} folds of cells" if known else "constants at hand", oom=f"{right}/{len(found)}",
                median=median(every), mean=sum(every) / len(every), worst=max(every))
    return (right == len(found)) + (median(every) <= 0.08), (right != len(found)) + (median(every) > 0.08), line


def fit_clusters(build, folder, cells):
    """name of a cluster -> constants fitted to all cells of it, or of the one that it is like."""
    own = {name: [r for r in map(galvatron.measured_row, [c for c in cells if c["table"] == name]) if r]
           for name in ("II", "III", "VI")}
    of = {name: calibrate(build, folder, lambda _: FIT, own[name], name=f"{name}.json") for name in ("II", "III")}
    of["VI"] = refit(build, folder, of["III"], own["VI"])
    return {"titan-8": of["II"], "titan-16": of["II"], "a100-16": of["III"], "a100-64": of["III"], "a100-80g-32": of["VI"]}


def write_tables(build, calibration, path):
    """Predicts every cell of the paper's tables into a file. Constants of titan clusters from Table II's cells, of A100
    clusters from Table III's, one of Table VI's from its own: all cells of a table are used, and no figure that is not in
    the calibration file."""
    with open(calibration, newline="", encoding="utf-8") as text:
        known = list(csv.DictReader(line for line in text if not line.startswith("#")))
    answers = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        constants = fit_clusters(build, folder, known)
        cells = galvatron.cells()
        for table, cluster_name in sorted({(c["table"], c["cluster"]) for c in cells}):
            group = [c for c in cells if (c["table"], c["cluster"]) == (table, cluster_name)]
            found = search_cells(build, folder, constants[galvatron.cluster_of(cluster_name)], group)
            answers += [galvatron.answered(c, f) for c, f in zip(group, found)]
    with open(path, "w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, galvatron.COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(answers)
    print(f"{path}: {len(answers)} cells, {sum(a['oom'] == '1' for a in answers)} of them out of memory")
