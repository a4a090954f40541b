"""A stub that serves while a block runs, and what it counted."""

import http.client
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from tests.bench.data import Shape
from tests.bench.harness import PYTHON, ROOT, BenchError, Child, environment


class Stats(NamedTuple):
    """What the stub has seen so far."""

    runs: int
    waiting_max: int  # requests unanswered at once


class Stub:
    """A running stub, by its address."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    def stats(self) -> Stats:
        """Ask it. A connection of its own each time: the measured process's must not be disturbed."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            connection.request("GET", "/stats")
            return Stats(**json.loads(connection.getresponse().read()))

    def await_runs(
        self, runs: int, child: Child, *, every_s: float = 0.01, deadline_s: float = 900.0
    ) -> None:
        """Wait until so many rows have come. Raises BenchError where the sender ended before, or hangs."""
        until = time.perf_counter() + deadline_s
        while self.stats().runs < runs:
            if child.ended(every_s):
                if self.stats().runs >= runs:
                    return
                raise BenchError(child.words(f"ended before it had sent {runs} rows"))
            if time.perf_counter() > until:
                raise BenchError(child.words(f"did not send {runs} rows in {deadline_s:.0f} s"))


@contextmanager
def stub(*, shape: Shape = "text", reply_bytes: int = 8_000, delay_s: float = 0.0) -> Iterator[Stub]:
    """A fresh stub for one measured process: its counts and its ports are that process's alone."""
    command = [PYTHON, "-m", "tests.bench.stub", "--shape", shape]
    command += ["--reply-bytes", str(reply_bytes), "--delay", str(delay_s)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            yield Stub(int(process.stdout.readline()))
        finally:
            process.kill()
