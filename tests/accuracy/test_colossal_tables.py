#!/usr/bin/env python3
"""test_colossal_tables.py BUILD [--renew]: what galplan reproduce colossal predicts against the committed rows of
colossal_tables.csv. Of formulas and bytes exactly, of seconds within 5 %: what changes them by more is to be seen in
the table (--renew, or make colossal-tables). A point that was refused when the table was written may come. And what the
paper's own text says of the formulas: order and factors, by numbers worked out here. Exit 1 if something differs."""
import csv
import pathlib
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_name("colossal_tables.csv")
EXACT = {"table1", "table1-corrected", "fig9", "fig9-corrected", "fig15a", "fig15b"}
SECONDS_SHARE = 0.05
KEY = ("figure", "system", "gpus", "mode", "depth")


def rows(text):
    """(figure, system, gpus, mode, depth) -> (batch, value); the batches of a range make figures of their own."""
    found = {}
    for row in csv.DictReader(text):
        if row["figure"] in ("fig12a", "fig12b"):
            row["figure"] += f"-b{row['batch']}"
        found[tuple(row[k] for k in KEY)] = (int(row["batch"]), float(row["value"]))
    return found


def verdict(name, holds, why=""):
    """One line; whether it holds."""
    print(f"ok {name}" if holds else f"not ok {name}: {why}")
    return holds


def compare(known, now):
    """Every committed row is there, and near."""
    fine = True
    for key, (batch, value) in known.items():
        exact = key[0] in EXACT or key[0].startswith("fig12")
        share = 1e-9 if exact else SECONDS_SHARE
        got = now.get(key)
        holds = got is not None and abs(got[1] - value) <= share * value and (not exact or got[0] == batch)
        if not holds:
            print(f"{','.join(key)}: {got}, committed {(batch, value)}")
        fine = fine and holds
    return verdict("predictions are the committed ones", fine, "see above; make colossal-tables renews them")


def closed_forms(now):
    """b 32, s 512, h 1024: Sx = Sy = 2^24, Sw = 2^20, so Sx = 16 Sw."""
    w = 2.0**20
    want = {
        ("table1", "", "4", "1d", "1"): 2 * 3 * 16 * w,
        ("table1", "", "4", "2d", "1"): 3 * 1 * 17 * w,
        ("table1", "", "8", "2.5d", "2"): 3 * 1 * (8 + 1) * w,
        ("table1", "", "8", "3d", "1"): 2 * 1 / 2 * 33 * w,
        ("table1-corrected", "", "8", "2.5d", "2"): (3 * 1 * (16 + 2) + 2 * 1) * w,
        ("table1-corrected", "", "8", "3d", "1"): 2 * 1 * 33 * w,
        ("table1-corrected", "", "64", "2.5d", "4"): (3 * 3 * (16 + 4) + 2 * 3) * w,
    }
    wrong = {key: now.get(key) for key, value in want.items() if key not in now or abs(now[key][1] / value - 1) > 1e-5}
    return verdict("volumes are those of the formulas", not wrong, str(wrong))


def rates(now, figure, system, gpus):
    """mode -> images per second."""
    return {key[3]: value for key, (_, value) in now.items() if key[:3] == (figure, system, gpus)}


def modes_turn(now):
    """As the paper's release carried them out (Figure 14, section V-B3): 1D before all others on system I, behind the
    squares on system II. The paper has 3D behind 1D on system II too: here it is 9 % ahead, for what the release spends
    beside its collectives (planner/published/colossal_release.h)."""
    fine = True
    for gpus, square in (("4", "2d"), ("8", "2.5d")):
        one, two = rates(now, "fig14", "colossal-1", gpus), rates(now, "fig14", "colossal-2", gpus)
        fine = fine and max(one, key=one.get) == "1d" and two[square] > two["1d"]
        print(f"fig14, {gpus} GPUs: {square} over 1d {one[square] / one['1d']:.2f} and {two[square] / two['1d']:.2f}")
    cubes = [rates(now, "fig14", f"colossal-{n}", "8") for n in (1, 2)]
    print("fig14, 8 GPUs: 3d over 1d", " and ".join(f"{r['3d'] / r['1d']:.2f}" for r in cubes))
    return fine


def ranges(now):
    """Figure 12: 3D below 2.5D below 1D on 8 devices, 2D below 1D on 4; the reductions beside the paper's."""

    def less(figure, gpus, mode, depth):
        value = {m: now[(figure, "colossal-1", gpus, m, d)][1] for m, d in (("1d", "1"), (mode, depth))}
        return 1 - value[mode] / value["1d"]

    fine = True
    for figure, paper in (("fig12b-b512", (44, 65)), ("fig12d-h16384", (62, 74.2))):
        two, three = less(figure, "8", "2.5d", "2"), less(figure, "8", "3d", "1")
        print(f"{figure}: 2.5d {100 * two:.1f} % and 3d {100 * three:.1f} % below 1d; the paper {paper[0]} and {paper[1]}")
        fine = fine and 0 < two < three
    fine = fine and min(less(f, "4", "2d", "1") for f in ("fig12a-b512", "fig12c-h16384")) > 0
    return verdict("fig12: 3D < 2.5D < 1D on 8 devices, 2D < 1D on 4", fine)


def own_modes_differ(now):
    """As galrun carries them out: on 8 GPUs another mode is the best one on each system."""
    best = [max(r, key=r.get) for r in (rates(now, "fig14-galrun", f"colossal-{n}", "8") for n in (1, 2))]
    return verdict("fig14-galrun: the systems get different modes on 8 GPUs", best[0] != best[1], f"{best}")


def main():
    """Runs the command once."""
    build = pathlib.Path(sys.argv[1])
    done = subprocess.run([build / "galplan", "reproduce", "colossal"], capture_output=True, text=True, check=True)
    if "--renew" in sys.argv[2:]:
        TABLE.write_text(done.stdout, encoding="utf-8")
        return 0
    now = rows(done.stdout.splitlines())
    known = rows(TABLE.read_text(encoding="utf-8").splitlines())
    fine = [compare(known, now), closed_forms(now)]
    ring, whole = now[("fig15a", "colossal-3", "12", "ring", "1")], now[("fig15a", "colossal-3", "12", "1d", "1")]
    fine.append(verdict("a ring holds more samples than 1D on 12 devices", ring[1] > whole[1], f"{ring} {whole}"))
    gain = {n: now[("fig17", "colossal-2", n, "hybrid", "1")][1] / now[("fig17", "colossal-2", n, "zero3-host", "1")][1]
            for n in ("1", "2", "4", "8")}
    print("fig17: hybrid over the optimizer on the host:", ", ".join(f"{x:.2f} on {n}" for n, x in gain.items()),
          "GPUs; the paper has 2.33 on 8 against DeepSpeed, whose losses by its implementation are in it")
    fine.append(verdict("a hybrid is never slower than all on the host", min(gain.values()) >= 1, f"{gain}"))
    fine.append(verdict("fig14: 1D before all others on system I, behind squares on system II", modes_turn(now)))
    fine.append(own_modes_differ(now))
    fine.append(ranges(now))
    return 0 if all(fine) else 1


sys.exit(main())
