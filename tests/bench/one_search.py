"""One search as a process, for the benches of this folder."""
import json
import os
import resource
import sys
import tempfile
import time


def once(galplan, arguments, limit_seconds):
    """Wall seconds (None: stopped at the limit), processor seconds, resident megabytes, the printed object (None: no
    plan)."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        files = [(os.POSIX_SPAWN_DUP2, printed.fileno(), 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        command = [galplan, "search", "--json", "-q", *arguments]
        resource.setrlimit(resource.RLIMIT_CPU, (limit_seconds, resource.RLIM_INFINITY))  # which the process has too
        began = time.monotonic()
        child = os.posix_spawn(galplan, command, os.environ, file_actions=files)  # a fork copies this interpreter: 1 ms
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        _, status, usage = os.wait4(child, 0)
        took = time.monotonic() - began
        megabytes = usage.ru_maxrss / 1024
        if os.WIFSIGNALED(status):
            return None, None, megabytes, None
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, 1):
            sys.exit(f"galplan search {' '.join(arguments)}: exit {code}")
        printed.seek(0)
        return took, usage.ru_utime + usage.ru_stime, megabytes, json.load(printed) if code == 0 else None
