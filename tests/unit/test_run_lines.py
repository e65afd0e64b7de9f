#!/usr/bin/python3
"""test_run_lines.py BUILD: a run on a pipe says how it goes while it goes: its first step at once, lines as --every asks,
its last step; rank 0 alone, and so under a supervisor that gives it a file, no terminal, no input and next to no
environment. On a terminal one line is rewritten. --log and --tensorboard write the same figures down.
timeout_seconds: 300"""
import csv
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import time

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # Open MPI keeps memory that is not ours to free
# What a supervisor starts a service with; and Open MPI as root, in a container.
bare = {name: value for name, value in environment.items() if name in ("PATH", "ASAN_OPTIONS") or "MPI" in name}
failed = False
STEP = re.compile(r"^(\[rank 0\] )?info: step (\d+)/(\d+)  loss \d+\.\d{4}  [\d.e-]+ s  [\d.e+]+ tokens/s(, per device [\d.e+]+)?"
                  r", [\d.e+-]+ [TG]FLOP/s, MFU [\d.e-]+ %  [\d.]+( MB)? of [\d.]+ GB  lr [\d.e-]+  gradient [\d.e+-]+"
                  r"(  \d+:\d\d(:\d\d)? left)?$")


def verdict(what, good, said=""):
    global failed
    print(("ok " if good else "not ok ") + what, flush=True)
    if not good:
        print(repr(said[-3000:]))
        failed = True


def galrun(ranks, *arguments):
    return [build + "/galrun", f"plan{ranks}.json", "--np", str(ranks), "--data", "text", "--evaluate-batches", "1",
            *arguments]


def in_pipe(arguments):
    process = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             env=environment, check=False)
    return process.stderr.decode(), process.returncode


def steps(said):
    """The numbers of the steps that have a line."""
    return [int(found.group(2)) for found in map(STEP.match, said.splitlines()) if found]


def on_terminal(arguments):
    master, slave = pty.openpty()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=slave, env=environment)
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # EIO: the other side is closed
            break
        if not part:
            break
        said += part
    os.close(master)
    return said.decode().replace("\r\n", "\n"), process.wait()


def check_pipe():
    for ranks in (1, 2):
        said, code = in_pipe(galrun(ranks, "--steps", "5"))
        verdict(f"{ranks} ranks: the first step and the last", code == 0 and steps(said) == [1, 5], said)
        verdict(f"{ranks} ranks: a line per step, and of the validation",
                re.search(r"info: step 5: validation loss [\d.]+$", said, re.M) and len(said.splitlines()) == 4, said)
        verdict(f"{ranks} ranks: what is trained", re.search(
            rf"info: tiny: [\d.]+ M parameters, fp64, 8 x 32 tokens a step, adam, to step 5, on {ranks} x rtx-titan", said), said)
        verdict(f"{ranks} ranks: tokens per device where there are several",
                (", per device " in said) == (ranks > 1), said)
    said, code = in_pipe(galrun(1, "--steps", "7", "--every", "3"))
    verdict("--every 3", code == 0 and steps(said) == [1, 3, 6, 7], said)
    said, code = in_pipe(galrun(1, "--steps", "3", "--every", "0.000001s"))
    verdict("--every 0.000001s", code == 0 and steps(said) == [1, 2, 3], said)
    said, code = in_pipe(galrun(1, "--steps", "3", "--every", "1", "-q"))
    verdict("nothing with -q", code == 0 and said == "", said)
    said, code = in_pipe(galrun(1, "--every", "soon"))
    verdict("--every soon is refused", code == 2 and said == "galrun: error: --every: expected a time such as 30s, 5m or "
            '1h, or a number of steps such as 100, got "soon"\n', said)


def check_terminal():
    said, code = on_terminal(galrun(1, "--steps", "5"))
    verdict("a terminal: one line is rewritten", code == 0 and steps(said) == [] and
            re.search(r"\r\033\[Kstep 5/5  loss [\d.]+  \d+ tokens/s  0:00 left\n", said), said)
    said, code = on_terminal(galrun(1, "--steps", "5", "--every", "2"))
    verdict("a terminal: lines, if --every asks for them", code == 0 and steps(said) == [1, 2, 4, 5], said)


def check_supervised():
    """The lines are in the file while the run goes on; it ends, and well, on SIGTERM."""
    with open("service.log", "wb") as log:
        process = subprocess.Popen(galrun(2, "--steps", "1000000", "--every", "1"), stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, env=bare, start_new_session=True)
    said = ""
    for _ in range(300):
        time.sleep(0.1)
        with open("service.log", encoding="utf-8") as log:
            said = log.read()
        if len(steps(said)) >= 3 or process.poll() is not None:
            break
    verdict("supervised: lines come while it runs", process.poll() is None and steps(said)[:3] == [1, 2, 3], said)
    process.terminate()
    code = process.wait()
    with open("service.log", encoding="utf-8") as log:
        said = log.read()
    done = re.search(r"^steps done +(\d+) .*interrupted", said, re.M)
    verdict("supervised: SIGTERM ends it, its last step has a line",
            code == 0 and done and steps(said)[-1] == int(done.group(1)), said)


def check_files():
    arguments = ("--steps", "3", "--save", "saved")
    _, code = in_pipe(galrun(2, *arguments, "--log", "log.jsonl", "--tensorboard", "events"))
    with open("log.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    step = lines[0]
    verdict("--log: figures of a step", code == 0 and [line["event"] for line in lines] ==
            ["step", "step", "step", "save", "evaluation", "final"] and step["step"] == 1 and
            abs(step["tokens_per_second"] / step["tokens_per_second_per_device"] - 2) < 1e-6 and
            step["memory_bytes"] > 1e6, str(lines))
    with open("plan2.json", encoding="utf-8") as file:
        peak = json.load(file)["cluster"]["device"]["fp64_flops_per_second"]
    verdict("--log: MFU is the model's FLOPs by the device's peak",
            abs(step["mfu"] * peak / step["model_flops_per_second_per_device"] - 1) < 1e-6 and step["mfu"] > 0, str(step))
    size = [os.path.getsize("events/" + name) for name in os.listdir("events")]
    verdict("--tensorboard: a file", len(size) == 1 and size[0] > 500, str(size))
    _, code = in_pipe(galrun(2, "--steps", "4", "--save", "saved", "--resume", "latest", "--log", "log.csv",
                             "--tensorboard", "events"))
    with open("log.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    verdict("--log FILE.csv", code == 0 and [(row["event"], row["step"]) for row in rows] ==
            [("step", "4"), ("save", "4"), ("evaluation", "4")] and float(rows[0]["loss"]) > 0 and
            rows[0]["validation_loss"] == "" and float(rows[2]["validation_loss"]) > 0, str(rows))
    verdict("--tensorboard: a resumed run has a file of its own", len(os.listdir("events")) == 2, str(os.listdir("events")))
    said, code = in_pipe(galrun(1, "--steps", "1", "-q", "--tensorboard", "/dev/null/runs"))
    verdict("--tensorboard: no such folder", code == 4 and said == "galrun: error: /dev/null/runs: Not a directory\n", said)


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    for count in (1, 2):
        subprocess.run([build + "/galplan", "search", "--model", root + "/tests/fixtures/valid/model.json", "--cluster",
                        "titan-8", "--devices", str(count), "--space", "dp", "-o", f"plan{count}.json"],
                       stdout=subprocess.DEVNULL, check=True)
    with open(root + "/README.md", "rb") as text, open("text", "wb") as copy:
        copy.write(text.read())
    check_pipe()
    check_terminal()
    check_supervised()
    check_files()
sys.exit(1 if failed else 0)
