"""The command as a process of its own, and the processes below it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from triocollect.deployment import datasets


def triocollect(*arguments, **settings):
    """Start `python -m triocollect …`, its words in pipes that nobody has to read."""
    command = [sys.executable, "-m", "triocollect", *map(str, arguments)]
    settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **settings}
    return subprocess.Popen(command, **settings)


def embedded_run(folder, *more, repeats=200, **settings):
    """A run on the embedded deployment, a long one unless told otherwise."""
    rows = datasets.path("counter")
    arguments = ["run", "-i", rows, "-o", folder / "out.jsonl", "-r", repeats, "-c", "8", *more]
    return triocollect(*arguments, **settings)


def descendants(pid):
    """The process ids below a process."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *descendants(child)]
    return found


def alive(pids):
    """Those that still run a server of ours: a number may be another's by now."""
    running = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if b"triocollect.servers" in Path(f"/proc/{pid}/cmdline").read_bytes():
                running.append(pid)
    return running


def hung(run, name):
    """Stop a server of the run in the middle of what it does; its process id."""
    (server,) = [
        child for child in alive(descendants(run.pid)) if name in Path(f"/proc/{child}/cmdline").read_text()
    ]
    os.kill(server, signal.SIGSTOP)
    return server


def until(holds, patience_s=60.0):
    """Poll for something that another process does; False when it does not in time."""
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def lines_in(path):
    """How many whole lines a file has by now."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
