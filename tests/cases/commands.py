"""The command in this process, in one of its own or as process 1, and how it ended."""

import io
import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final, NamedTuple

from tests.cases.participant import PATIENCE_S
from tests.cases.taking_part import Deployment
from triocollect.cli.app import run as triocollect

REPOSITORY: Final = Path(__file__).parents[2]
_NEW_WORLD: Final = ("unshare", "--pid", "--fork", "--mount-proc")


class CommandEnd(NamedTuple):
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str


def in_process(arguments: list[str], file_limit: int | None) -> CommandEnd:
    """Here, with what it says caught."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr), disk_full_at(file_limit):
        exit_code = triocollect(arguments)
    return CommandEnd(exit_code, stdout.getvalue(), stderr.getvalue())


def process_of(arguments: list[str], within: Sequence[str] = ()) -> subprocess.Popen[str]:
    """In a process of its own, which the caller waits for."""
    return subprocess.Popen(
        [*within, sys.executable, "-m", "triocollect", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )


def in_new_world(arguments: list[str], deployment: Deployment) -> CommandEnd:
    """As process 1, which the deployment sends its signals to."""
    with process_of(arguments, _NEW_WORLD) as world:
        deployment.pid = lambda: _first_of(world.pid)
        stdout, stderr = world.communicate(timeout=PATIENCE_S)
    return CommandEnd(world.returncode, stdout, stderr)


def has_new_worlds() -> bool:
    """Whether we may make one, where a process is 1."""
    return not subprocess.run([*_NEW_WORLD, "true"], capture_output=True, check=False).returncode


def _first_of(world: int) -> int:
    """The process that is 1 there, as we know it."""
    return int(Path(f"/proc/{world}/task/{world}/children").read_text())


@contextmanager
def disk_full_at(most: int | None) -> Iterator[None]:
    """A full disk, as the kernel plays it: the write that crosses the limit is short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def peak_below(most: int | None) -> Iterator[None]:
    """The body takes less memory than so many bytes."""
    if most is None:
        yield
        return
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak} bytes of memory"
