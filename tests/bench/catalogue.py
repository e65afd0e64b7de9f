#!/usr/bin/env python3
"""make bench-catalogue: every model that ships on every cluster that ships: what a search answers, and how long it takes.

Usage: tests/bench/catalogue.py GALPLAN [WORD...]

The search is whole but for one batch: a sample for every device, at least 16; in bf16 (fp16 where a device has no bf16)
and in fp32. Of the searches "MODEL in DTYPE on CLUSTER" those that hold every WORD. Two at a time; one that takes more than 60 s is stopped. A row for each: processor seconds, resident
memory, and the plan's gap and pipeline degree, or the least memory and the least devices where none fits. Exit 1 if a
search was stopped or gave no answer."""
import concurrent.futures
import json
import os
import resource
import subprocess
import sys
import tempfile

LIMIT_SECONDS = 60
SLOW_SECONDS, WIDE_GAP = 10, 0.05  # named at the end


def printed(galplan, *words):
    """The object that a command prints."""
    return json.loads(subprocess.run([galplan, *words], capture_output=True, check=True, text=True).stdout)


def names(galplan, kind):
    return sorted(row["name"] for row in printed(galplan, kind, "--json")[kind])


def dtypes_of(cluster):
    """The narrow precision of a cluster's devices, if there is one, and fp32."""
    device = cluster["device"]
    return [*[dtype for dtype in ("bf16", "fp16") if f"{dtype}_flops_per_second" in device][:1], "fp32"]


def name_of(model, dtype, cluster):
    return f"{model} in {dtype} on {cluster}"


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))


def search(galplan, model, dtype, cluster, device_count):
    """The search, exit code (below 0: stopped), seconds, megabytes, the printed object, stderr."""
    batch = max(16, device_count)
    arguments = ["--model", model, "--dtype", dtype, "--cluster", cluster, "--batch", str(batch)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([galplan, "search", *arguments, "--json", "-q"], stdout=out, stderr=err,
                                 preexec_fn=limit)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        found = json.load(out) if child.returncode in (0, 1) else {}
        return (name_of(model, dtype, cluster), child.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, found,
                err.read().decode())


def answer(code, found, err):
    """What was answered, in words; None if nothing was."""
    if code == 0:
        return f"P {found['pp_degree']:<4} gap {100 * found['optimality_gap']:.2f} %"
    if code == 1 and found.get("least_bytes"):
        devices = found["least_device_count"] or "no number of"
        return f"none: needs {found['least_bytes'] / 2**30:.1f} GiB, or {devices} devices"
    if code == 1:
        return "none: " + (err.strip().splitlines() or ["no reason"])[-1][:100]
    return None


def main():
    galplan, words = sys.argv[1], sys.argv[2:]
    clusters = {name: printed(galplan, "clusters", name) for name in names(galplan, "clusters")}
    searches = [(m, d, c, cluster["device_count"]) for m in names(galplan, "models") for c, cluster in clusters.items()
                for d in dtypes_of(cluster) if all(w in name_of(m, d, c) for w in words)]
    slow, wide, bad = [], [], []
    total = 0.0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, code, seconds, megabytes, found, err in pool.map(lambda s: search(galplan, *s), searches):
            said = answer(code, found, err)
            print(f"{name:44} {seconds:>7.2f} s {megabytes:>5.0f} MB  {said or 'no answer: exit ' + str(code)}", flush=True)
            total += seconds
            slow += [name] if seconds > SLOW_SECONDS else []
            wide += [name] if code == 0 and found["optimality_gap"] > WIDE_GAP else []
            bad += [name] if said is None else []
    print(f"{len(searches)} searches, {total:.0f} s")
    for what, which in ((f"over {SLOW_SECONDS} s", slow), (f"gap above {100 * WIDE_GAP:.0f} %", wide), ("no answer", bad)):
        print(f"{len(which)} {what}: {', '.join(which)}")
    sys.exit(1 if bad else 0)


main()
