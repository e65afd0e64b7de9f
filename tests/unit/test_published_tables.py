#!/usr/bin/env python3
"""test_published_tables.py BUILD: the statistics of make accuracy by hand, how rows of others are read, and a file of a
known kind made of our own predictions, on which nothing may be left over. Prints ok or not ok per check."""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "accuracy"))
sys.dont_write_bytecode = True
import at_hand  # noqa: E402
import galplan  # noqa: E402
import galvatron  # noqa: E402
import galvatron_cells  # noqa: E402
import published  # noqa: E402
import scores  # noqa: E402

failed = []


def verdict(what, good):
    print(f"{'ok' if good else 'not ok'} {what}")
    if not good:
        failed.append(what)


def statistics():
    verdict("median of an even count is between", scores.median([4.0, 1.0, 3.0, 2.0]) == 2.5)
    verdict("rank correlation: equal, opposite order",
            scores.spearman([1, 2, 3], [2, 4, 9]) == 1.0 and scores.spearman([1, 2, 3], [3, 2, 1]) == -1.0)
    # ranks 0.5, 1.5, 2.5 against 1, 1, 2.5 (a tie shares): 1.5 / sqrt(2 x 1.5)
    verdict("rank correlation: a tie", abs(scores.spearman([1, 2, 3], [5, 5, 7]) - 1.5 / 3.0**0.5) < 1e-12)
    group = [dict(group="g", estimated_seconds=e, seconds=m) for e, m in zip((1, 2, 3, 4, 5, 6), (1.2, 1.0, 3, 4, 5, 6))]
    correlations, regrets = scores.within_groups(group)
    verdict("regret: the layout predicted the fastest takes 20 % longer than the fastest",
            len(correlations) == 1 and abs(regrets[0] - 0.2) < 1e-12)
    verdict("the worst regret names the one chosen and the fastest",
            [(round(r, 9), c["seconds"], f["seconds"]) for r, c, f in scores.worst_regrets(group, 3)] == [(0.2, 1.2, 1.0)])
    verdict("groups of 5 do not count", scores.within_groups(group[:5]) == ([], []))


def rows_of_others():
    sc21 = dict(layers="48", pp="2")
    verdict("SC21: 24 layers in 2 pieces; 3 in 3; one stage in one",
            published.sc21_chunks(sc21) == 2 and published.sc21_chunks(dict(layers="105", pp="35")) == 3 and
            published.sc21_chunks(dict(layers="24", pp="1")) == 1)
    row = dict(gpus="256", setup="2D Parallelism", variant="FSDP + TP", caption="70B model. FSDP 32, TP 8.")
    verdict("torchtitan: degrees from the caption", published.torchtitan_degrees(row) == (32, 8, 1))
    try:
        published.torchtitan(dict(row, variant="FSDP + Float8", model="Llama 3.1 70B"))
        verdict("torchtitan: FP8 is excluded", False)
    except published.Excluded as reason:
        verdict("torchtitan: FP8 is excluded", str(reason) == "FP8")


def searches():
    def option(seconds, size):
        return galvatron.Option(8, 1, 1, 0, "none", "gpipe", 8, seconds, size, 1.0, "", 1)
    fast, small = option(1.0, 12.0), option(2.0, 8.0)
    verdict("two layouts share the layers: half of each between 1 s, 12 bytes and 2 s, 8 bytes, of 10 bytes",
            galvatron.fastest([fast, small], 10.0, True) == (1.5, (fast, small)))
    verdict("where one layout is for all, the one that fits", galvatron.fastest([fast, small], 10.0, False) == (2.0, (small,)))
    fits = option(1.0, 9.0)
    verdict("what fits alone is not mixed", galvatron.fastest([fits, small], 10.0, True) == (1.0, (fits,)))
    verdict("nothing fits", galvatron.fastest([fast], 10.0, True) == (float("inf"), ()))
    # 10 GiB, half of the layers each: of one number of stages they mix, of two they do not
    cell = dict(strategy="Galvatron", memory_gb="10", gpus="8", model="BERT-Huge-32")
    two = [galvatron.Option(4, 1, 2, 0, "none", "gpipe", 8, 1.0, 12.0 * 2**30, 1.0, "", 3)]
    slow = galvatron.Option(2, 2, 2, 0, "none", "gpipe", 8, 2.0, 8.0 * 2**30, 1.0, "", 2)
    mixed, apart = galvatron.best(cell, two + [slow]), galvatron.best(cell, two + [slow._replace(pp=4, dp=1)])
    verdict("layouts of one number of stages share layers, and both numbers of microbatches are said",
            (mixed.samples_per_s, mixed.microbatch_count, mixed.microbatches) == (8 / 1.5, "2;3", "max:3"))
    verdict("layouts of two numbers of stages do not", (apart.samples_per_s, apart.microbatch_count) == (4.0, "2"))
    verdict("717 cells, none twice", len({tuple(c.values()) for c in galvatron.cells()}) == len(galvatron.cells()) == 717)
    with open(ROOT / "tests/accuracy/galvatron_tables.csv", newline="", encoding="utf-8") as table:
        predicted = list(csv.DictReader(table))
    verdict("every cell is predicted, or out of memory",
            len(predicted) == 717 and all((p["oom"] == "1") == (p["samples_per_s"] == "") for p in predicted))
    stages = [(p["strategy"], p["partition"], galvatron.layer_count(p["model"])) for p in predicted if p["partition"]]
    verdict("partitions have all layers, and those of Mem and Time differ",
            len(stages) > 12 and all(sum(map(int, cut.split(";"))) == layers for _, cut, layers in stages) and
            {cut for name, cut, _ in stages if name == "1F1B+Mem"} != {cut for name, cut, _ in stages if name == "1F1B+Time"})


def balances():
    verdict("between 2;6 and 6;2: half of the way, none, all",
            [galvatron.between((2, 6), (6, 2), share) for share in (0.5, 0.0, 1.0)] == [(4, 4), (2, 6), (6, 2)])
    work = (1, 1, 1, 5)  # of four layers: 2 stages are best cut before the last

    def row_of(_, partition):
        return partition

    def estimate(rows):
        return [{"estimated_seconds": max(sum(work[: cut[0]]), sum(work[cut[0]:]))} for cut in rows]

    verdict("climbing finds the cut of least work",
            galvatron.climb({(2, "seconds"): (2, 2)}, row_of, estimate) == {(2, "seconds"): (3, 1)})


def hostile(build):
    """Rows that cannot be used are left out, each with a reason, and the others answered."""
    good = dict(set="single", gpus="2", global_batch="16", microbatch="2", hidden="1024", heads="16", layers="12",
                seq="1024", tp="1", dp="2", pp="1", iter_ms="90")
    bad = [dict(good, iter_ms=""), dict(good, iter_ms="-1"), dict(good, iter_ms="nan"), dict(good, dp="x"),
           dict(good, tp="0"), dict(good, global_batch="7"), dict(good, hidden="1e9"), dict(good, pp="64"),
           {k: v for k, v in good.items() if k != "seq"}]
    kind = next(k for k in published.KINDS if k.title == "vTrain")
    rows, excluded = published.convert(kind, [good] + bad + [dict(good, microbatch="4")])
    rows = published.vet(build, rows, excluded)
    verdict("of 11 rows 9 are excluded, each with a reason",
            len(rows) == 2 and sum(excluded.values()) == 9 and all(excluded))
    verdict("two rows of one group are predicted without a fit", len(published.evaluate(build, kind, rows, 1)[0]) == 2)
    cells = [dict(table="II", gpus="8", memory_gb="8", strategy="DP", model="ViT-Huge-32", samples_per_s="", batch="", oom="1")]
    cells += [dict(cells[0], model="other"), dict(cells[0], strategy="other"), dict(cells[0], oom="0"),
              dict(cells[0], memory_gb="x"), dict(cells[0], oom="")]
    used, excluded = galvatron_cells.vet(cells)
    verdict("of 6 cells 5 are excluded", len(used) == 1 and sum(excluded.values()) == 5)


def hands():
    """A row is known whatever its columns' order, and not if another figure stands in it; all of a file's kinds and
    clusters that rows are known of have constants."""
    row = dict(cluster="/a/selene.json", seconds=1.5, tp="2", group="x", part="")
    known = at_hand.digest("sc21", row)
    verdict("rows are known by what was measured", known == at_hand.digest("sc21", dict(reversed(list(row.items())), group="y")) and
            len({known, at_hand.digest("vtrain", row), at_hand.digest("sc21", dict(row, tp="4"))}) == 3)
    constants = {p.stem for p in at_hand.FOLDER.glob("*.json")}
    kinds = {k.slug() for k in published.KINDS} | {galvatron_cells.SLUG}
    verdict("constants are of kinds that there are", constants and all(any(c.startswith(f"{k}-") for k in kinds) for c in constants))
    verdict("a row that nothing was fitted to is not known", not at_hand.knows("sc21", [row]))


def files(build):
    """Files that cannot be read, or that say nothing, end nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        command = [sys.executable, str(ROOT / "tests/accuracy/published.py"), str(build), str(folder)]
        plain = {k: v for k, v in os.environ.items() if k != "CI"}
        empty = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
        in_ci = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(plain, CI="true"))
        verdict("a folder without a table is skipped with a reason, in CI it fails",
                (empty.returncode, in_ci.returncode) == (77, 1) and "no CSV file" in empty.stdout)
        (folder / "nul.csv").write_bytes(b"iter_ms,tp,dp,pp,microbatch\n1,2,\x00,3,4\n")
        (folder / "folder.csv").mkdir()
        (folder / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
        (folder / "empty.csv").write_text("", encoding="utf-8")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        verdict("of files that cannot be used each has its line",
                done.returncode == 0 and all(f"{n}.csv" in done.stdout for n in ("nul", "folder", "other", "empty")))


def whole(build):
    """A file of vTrain's form with what galplan predicts as measured: fitted to a tenth, nothing is left."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        rows = [dict(set="single", params_b="", gpus=g, global_batch=32, microbatch=b, hidden=h, heads=16, layers=12,
                     seq=1024, tp=t, dp=g // t, pp=1, iter_ms=1.0)
                for h in (1024, 2048) for g in (2, 4, 8) for t in (1, 2) for b in (1, 2, 4)]
        rows = [{key: str(value) for key, value in row.items()} for row in rows]
        used = [published.vtrain(r) for r in rows]
        galplan.write_rows(folder / "rows.csv", used)
        galplan.run(build, "estimate", folder / "rows.csv", "--prices", "framework:megatron-deepspeed-2023", "-o",
                      folder / "out.csv")
        with open(folder / "out.csv", newline="", encoding="utf-8") as answer:
            for row, estimated in zip(rows, csv.DictReader(answer)):
                row["iter_ms"] = 1e3 * float(estimated["estimated_seconds"])
        (folder / "out.csv").unlink()
        with open(folder / "rows.csv", "w", newline="", encoding="utf-8") as out:
            table = csv.DictWriter(out, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        done = subprocess.run([sys.executable, str(ROOT / "tests/accuracy/published.py"), str(build), str(folder), "--fresh"],
                              capture_output=True, text=True, check=False)
        verdict("our own predictions as a file of vTrain's: no error", done.returncode == 0 and
                "36 rows, 36 used" in done.stdout and "median 0.0 %" in done.stdout and "worst 0.0 %" in done.stdout)


statistics()
rows_of_others()
searches()
balances()
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
hands()
hostile(BUILD)
files(BUILD)
whole(BUILD)
sys.exit(1 if failed else 0)
