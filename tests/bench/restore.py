"""How soon the first row goes on after a restart that restores 1,000 episodes.

`first_run_s`: from the start of the command to its first `/run`, with fresh servers that listen already.
"""

import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.checkpoint import settle
from tests.bench.harness import OURS, Figures, Plan, Result, medians, scratch, told
from tests.bench.signals import awaited, talking
from tests.bench.telling import Crowd, command

_CROWD: Final = Crowd(lines=125, repeats=8, in_flight=1000)
_QUICK: Final = Crowd(lines=4, repeats=1, in_flight=4)
CASES: Final = ("1000",)


def measure_case(_case: str, plan: Plan) -> Result:
    """Raises BenchError where a process does not end, or does not say, as it must."""
    crowd = _QUICK if plan.quick else _CROWD
    return Result(crowd.in_flight, medians([told("ours", _round(crowd)) for _ in range(plan.rounds)]))


def _round(crowd: Crowd) -> Figures:
    with scratch() as folder:
        _life(folder, crowd)
        return {"first_run_s": _life(folder, crowd)}


def _life(folder: Path, crowd: Crowd) -> float:
    token = secrets.token_hex()
    with serving(folder, "--port", "0", token=token) as head:
        return first_run(folder, crowd, head, token)


@contextmanager
def serving(folder: Path, *what: str, token: str) -> Iterator[str]:
    """Servers whose model waits, until they are told to end; the URL that they say."""
    serve = [*OURS, "serve", *what, "--checkpoint-dir", str(folder / "ckpt")]
    with talking(serve, tokens_per_s=0.01, token=token) as servers:
        assert servers.stdout is not None
        yield servers.stdout.readline().split()[-1]
        servers.terminate()
        servers.communicate()


def first_run(folder: Path, crowd: Crowd, head: str, token: str) -> float:
    """All rows are sent to servers that listen already, then all are stopped. Seconds to the first."""
    began = time.perf_counter()
    with talking(command(folder, crowd, f"head_server={head}"), token=token) as process:
        assert process.stdout is not None
        _, first, _ = awaited(process.stdout, "RowSent").split()
        settle(process, crowd._replace(in_flight=crowd.in_flight - 1))
        process.send_signal(signal.SIGTERM)
        awaited(process.stdout, "CheckpointEnded")
        process.communicate()
    return float(first) - began
