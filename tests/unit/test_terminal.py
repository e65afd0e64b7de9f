#!/usr/bin/python3
"""test_terminal.py BUILD: long commands say on a terminal how far they are, and take the line away; nothing in a pipe.
timeout_seconds: 300"""
import os
import pty
import re
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # Open MPI keeps memory that is not ours to free
failed = False


def verdict(what, good, said):
    global failed
    print(("ok " if good else "not ok ") + what, flush=True)
    if not good:
        print(repr(said[-2000:]))
        failed = True


def on_terminal(arguments):
    """What the command writes on stderr, which is a terminal, and its exit code."""
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
    return said.decode(), process.wait()


def in_pipe(arguments):
    process = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, check=False)
    return process.stderr.decode(), process.returncode


def check(name, arguments, line):
    said, code = on_terminal(arguments)
    verdict(name + ": progress on a terminal", code == 0 and re.search("\r" + line, said) is not None, said)
    verdict(name + ": the line is taken away", re.search("\r {70}\r$", said) is not None, said)
    said, code = in_pipe(arguments)
    verdict(name + ": nothing in a pipe", code == 0 and said == "", said)
    said, code = on_terminal(arguments + ["-q"])
    verdict(name + ": nothing with -q", code == 0 and said == "", said)


with tempfile.TemporaryDirectory() as scratch:
    # The search takes some seconds on any machine: pipelines on many devices, in cells none of which is closed at once.
    check("search", [build + "/galplan", "search", "--model", "gpt3-175b", "--cluster", "h100-64", "--batch", "512",
                     "--microbatches", "64,128,256", "--pp", "2,4,8", "--gap", "0"],
          r"searching: \d of 9 cells closed( \(\d+ %\))?(, best [\d.]+ samples/s)?, \d+ s ")
    check("profile", [build + "/galplan", "profile", "--model", root + "/tests/fixtures/valid/model.json",
                      "--budget-seconds", "3", "-o", scratch + "/profile.json"],
          r"\w[^:\r]*: \d+ of \d+, \d+ s, \d+ s left ")
sys.exit(1 if failed else 0)
