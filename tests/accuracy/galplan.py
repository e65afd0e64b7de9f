"""galplan profile --calibrate and galplan estimate, on rows."""
import collections
import csv
import subprocess


def write_rows(path, rows):
    columns = sorted({k for row in rows for k in row} - {"framework", "part"})
    with open(path, "w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows({k: " ".join(str(v).split()) for k, v in row.items()} for row in rows)


def run(build, *arguments):
    done = subprocess.run([str(build / "galplan"), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"galplan {' '.join(map(str, arguments))}: {done.stderr.strip()}")


def calibrate(build, folder, choose, fitted_on, start=(), name="constants.json"):
    """Constants of the rows' cluster under the framework that most of them have; () where there is nothing to fit.
    choose(rows): their names; start: what this returned for a cluster like it, and returns where there is nothing to fit."""
    if not fitted_on:
        return start
    framework = collections.Counter(r["framework"] for r in fitted_on).most_common(1)[0][0]
    rows = [r for r in fitted_on if r["framework"] == framework]
    if len(rows) < 2:
        return start
    write_rows(folder / "fit.csv", rows)
    try:
        run(build, "profile", "--calibrate", folder / "fit.csv", "--prices", f"framework:{framework}", "--fit",
            choose(rows), *start, "-o", folder / name)
    except RuntimeError as refused:
        print(f"  nothing is fitted to {len(rows)} of the rows: {str(refused).rsplit('fit.csv: ', 1)[-1]}")
        return start
    return ("--constants", folder / name)


def predict(build, folder, constants, rows):
    """The rows as estimate has them, each under its framework."""
    answers = []
    for framework in sorted({r["framework"] for r in rows}):
        write_rows(folder / "rows.csv", [r for r in rows if r["framework"] == framework])
        run(build, "estimate", folder / "rows.csv", "--prices", f"framework:{framework}", *constants, "-o",
            folder / "out.csv")
        with open(folder / "out.csv", newline="", encoding="utf-8") as answer:
            answers += list(csv.DictReader(answer))
    return answers
