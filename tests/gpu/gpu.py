"""What make check-gpu and make bench-gpu share: the GPU of this machine, child processes, and the result's document
(gpu_result.schema.json)."""
import argparse
import ctypes
import datetime
import json
import math
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

EXIT_MISSED, EXIT_USAGE, EXIT_DEVICE = 1, 2, 5
VERDICTS = ("pass", "miss", "skip")


class NoDevice(Exception):
    """What is missing."""


# ---- the GPU ----

def describe_device():
    """The first GPU, by the driver; NoDevice without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoDevice("no CUDA driver (libcuda.so.1): is this a machine with NVIDIA GPUs?") from error
    count, device, number = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
    memory, name = ctypes.c_size_t(0), ctypes.create_string_buffer(256)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise NoDevice("no GPU: the CUDA driver sees none")
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    capability = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        capability.append(str(number.value))
    driver.cuDriverGetVersion(ctypes.byref(number))
    return {"name": name.value.decode(), "memory_bytes": memory.value, "compute_capability": ".".join(capability),
            "driver_cuda_version": f"{number.value // 1000}.{number.value % 1000 // 10}", **ask_smi()}


def ask_smi():
    """What nvidia-smi adds; empty where it is not there."""
    fields = {"driver_version": "driver_version", "power_limit_watts": "power.limit", "sm_clock_max_mhz": "clocks.max.sm"}
    query = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(fields, (part.strip() for part in said.splitlines()[0].split(","))))


def library_version(name, function, cuda_home):
    """The number that a library's function returns, or writes to its argument (NCCL)."""
    try:
        library = ctypes.CDLL(os.path.join(cuda_home, "lib64", name))
        if function == "ncclGetVersion":
            number = ctypes.c_int(0)
            library.ncclGetVersion(ctypes.byref(number))
            return str(number.value)
        return str(getattr(library, function)())
    except (OSError, AttributeError):
        return ""


def find_versions(build):
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    said = subprocess.run([f"{build}/galrun", "--version"], capture_output=True, text=True, check=False)
    return {"galrun": said.stdout.strip(), "cublaslt": library_version("libcublasLt.so", "cublasLtGetVersion", home),
            "cudnn": library_version("libcudnn.so", "cudnnGetVersion", home),
            "nccl": library_version("libnccl.so", "ncclGetVersion", home)}


# ---- child processes ----

class Done:
    """A process that has ended: code (124: stopped after its time), out (both streams), seconds."""

    def __init__(self, code, out, seconds):
        self.code, self.out, self.seconds = code, out, seconds

    def reason(self):
        """Its last line that says something, for one line of a report."""
        lines = [line.strip() for line in self.out.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        said = (errors or lines or ["nothing was printed"])[-1]
        return said if self.code != 124 else f"stopped after {self.seconds:.0f} s; {said}"


def run(argv, limit_seconds, environment=None):
    """Runs it to its end, or ends it and all that it started."""
    began = time.monotonic()
    with subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(environment or {})}) as child:
        try:
            out, _ = child.communicate(timeout=limit_seconds)
            code = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
            code = 124
    return Done(code, out, time.monotonic() - began)


# ---- results ----

def plain(figure):
    """JSON has no infinity and no NaN: null."""
    if isinstance(figure, float) and not math.isfinite(figure):
        return None
    if isinstance(figure, dict):
        return {key: plain(value) for key, value in figure.items()}
    return [plain(value) for value in figure] if isinstance(figure, (list, tuple)) else figure


class Results:
    """Verdicts in the order in which they come; each is printed at once."""

    def __init__(self):
        self.checks = []

    def put(self, name, verdict, text, seconds=0.0, figures=None):
        assert verdict in VERDICTS and name not in [c["name"] for c in self.checks]
        self.checks.append({"name": name, "verdict": verdict, "text": text, "seconds": round(seconds, 3),
                            "figures": plain(figures or {})})
        print(f"{verdict} {name}: {text}" if text else f"{verdict} {name}", flush=True)

    def count(self, verdict):
        return sum(c["verdict"] == verdict for c in self.checks)

    def document(self, command, device, versions):
        return {"document": "gpu_result", "version": 1, "command": command,
                "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "device": device, "versions": versions, "checks": self.checks,
                "pass_count": self.count("pass"), "miss_count": self.count("miss"), "skip_count": self.count("skip")}

    def exit_code(self):
        return EXIT_MISSED if self.count("miss") > 0 or self.count("pass") == 0 else 0


# ---- the command line ----

def arguments_of(name, what, argv):
    parser = argparse.ArgumentParser(prog=name, description=what)
    parser.add_argument("build", nargs="?", default="build", help="the folder that make wrote to (build)")
    parser.add_argument("only", nargs="*", help="parts whose names hold one of these words (all)")
    parser.add_argument("--out", help="write the result to this file, as JSON")
    parser.add_argument("--dry-run", action="store_true", help="prepare the documents and print what would be run")
    parser.add_argument("--probe", action="store_true", help="only see whether there is a GPU: exit 5 if not")
    return parser.parse_args(argv)


def wanted(name, words):
    return not words or any(word in name for word in words)


def main_of(name, what, parts, argv):
    """parts: [(name, part(context))]. A part puts verdicts into context.results, by processes of context.run."""
    given = arguments_of(name, what, argv)
    device = {}
    try:
        if not given.dry_run:
            device = describe_device()
    except NoDevice as missing:
        print(f"{name}: {missing}", file=sys.stderr)
        return EXIT_DEVICE
    if given.probe:
        return 0
    chosen = [(n, part) for n, part in parts if wanted(n, given.only)]
    if not chosen:
        print(f"{name}: no part is called {' or '.join(given.only)}: there are {', '.join(n for n, _ in parts)}",
              file=sys.stderr)
        return EXIT_USAGE
    with tempfile.TemporaryDirectory() as folder:
        context = Context(pathlib.Path(given.build), given.dry_run, pathlib.Path(folder))
        for part_name, part in chosen:
            print(f"# {part_name}", flush=True)
            part(context)
        return finish(name, given, context, device, argv)


def finish(name, given, context, device, argv):
    results = context.results
    if given.dry_run:
        print(f"{context.command_count} commands would be run, {results.count('skip')} parts left out")
        return EXIT_MISSED if results.count("miss") > 0 else 0
    if given.out:
        document = results.document(shlex.join([name, *argv]), device, find_versions(context.build))
        pathlib.Path(given.out).write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print(f"{results.count('pass')} passed, {results.count('miss')} missed, {results.count('skip')} skipped")
    return results.exit_code()


class Context:
    """What parts are given: the build, results, a folder for their files, and how to run. In a dry run what needs a GPU
    is printed, not run, and gives None."""

    def __init__(self, build, dry_run, folder):
        self.build, self.dry_run, self.folder = build, dry_run, folder
        self.results = Results()
        self.command_count = 0

    def program(self, name):
        """A program of the build; a miss where it is not there."""
        path = self.build / name
        if not path.exists():
            self.results.put(f"built {name}", "miss", "not built: see what make left out")
        return path

    def on_gpu(self, argv, limit_seconds, environment=None):
        self.command_count += 1
        if self.dry_run:
            setting = "".join(f"{k}={v} " for k, v in (environment or {}).items())
            print(f"would run, at most {limit_seconds} s: {setting}{shlex.join(str(a) for a in argv)}", flush=True)
            return None
        return run(argv, limit_seconds, environment)
