"""How soon the first row goes on after a restart that restores 1,000 episodes.

`first_run_s`: from the start of the command to its first `/run`, with fresh servers that listen already.
"""

import secrets
import signal
import time
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
        life(folder, crowd)
        return {"first_run_s": life(folder, crowd)}


def life(folder: Path, crowd: Crowd, workers: int = 1) -> float:
    """All rows are sent, then all are stopped. Seconds to the first; so many workers of each server."""
    token = secrets.token_hex()
    serve = [*OURS, "serve", "--port", "0", "--checkpoint-dir", str(folder / "ckpt")]
    serve += ["--workers", str(workers)]
    with talking(serve, tokens_per_s=0.1, token=token) as servers:
        assert servers.stdout is not None
        head = servers.stdout.readline().split()[-1]
        began = time.perf_counter()
        with talking(command(folder, crowd, f"head_server={head}"), token=token) as process:
            assert process.stdout is not None
            _, first, _ = awaited(process.stdout, "RowSent").split()
            settle(process, crowd._replace(in_flight=crowd.in_flight - 1))
            process.send_signal(signal.SIGTERM)
            awaited(process.stdout, "CheckpointEnded")
            process.communicate()
        servers.terminate()
        servers.communicate()
    return float(first) - began
