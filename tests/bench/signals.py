"""What a signal does, and how soon, with the embedded deployment and rows in flight.

- `idle`: from USR1 to the word that a checkpoint has started, with 64 rows that wait for the model, against a
  bare `open_signal_receiver` program that writes a line;
- `termstorm`: twenty TERMs, one every 100 ms: how many checkpoints were published;
- `startup`: USR1 at ever later moments after exec, killing whom it meets before the program's first line;
- `startup_ignored`: the same under a launcher that ignores USR1.
"""

import json
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.harness import (
    OURS,
    PYTHON,
    ROOT,
    BenchError,
    Figures,
    Plan,
    Result,
    environment,
    interleaved,
    medians,
    scratch,
    told,
)
from triocollect.deployment import datasets

_SWEPT_S: Final = 0.4  # of moments after exec
_TERMS: Final = 20
_BETWEEN_S: Final = 0.1
_STOPPED: Final = 75
_LOOK_S: Final = 0.01
_REST_S: Final = 0.3  # so that what the last checkpoint left to do is done


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where a process does not end, or does not answer, as it must."""
    return _MEASURED[case](plan)


def _idle(plan: Plan) -> Result:
    signals = plan.size(40, 3)
    return Result(signals, *interleaved(plan.rounds, lambda: _ours(signals), lambda: _peer(signals)))


def _ours(signals: int) -> Figures:
    with (
        scratch() as folder,
        _talking([PYTHON, "-m", "tests.bench.telling", str(folder)], tokens_per_s=0.1) as process,
    ):
        return _delays(process, signals, "RowSent", "CheckpointStarted", "CheckpointEnded")


def _peer(signals: int) -> Figures:
    command = [PYTHON, "-m", "tests.bench.peers.bare_receiver"]
    with _talking(command) as process:
        return _delays(process, signals, "listening", "heard")


def _delays(process: "subprocess.Popen[str]", signals: int, ready: str, heard: str, *done: str) -> Figures:
    """From each USR1 to the line `heard`; `done` is waited for before the next."""
    assert process.stdout is not None
    _await(process.stdout, ready)
    delays = []
    for _ in range(signals):
        time.sleep(_REST_S)
        began = time.perf_counter()
        process.send_signal(signal.SIGUSR1)
        _await(process.stdout, heard)
        delays.append(time.perf_counter() - began)
        for line in done:
            _await(process.stdout, line)
    return _spread(delays)


def _spread(delays: Sequence[float]) -> Figures:
    centiles = statistics.quantiles(delays, n=100, method="inclusive")
    return {"p50_ms": centiles[49] * 1000, "p99_ms": centiles[98] * 1000}


def _await(words: Iterator[str], wanted: str) -> None:
    for word in words:
        if wanted in word:
            return
    raise BenchError(f"ended before it said {wanted!r}")


def _termstorm(plan: Plan) -> Result:
    def storm() -> Figures:
        with scratch() as folder, _talking(_run(folder)) as process:
            while not (folder / "out.jsonl").exists() or not (folder / "out.jsonl").stat().st_size:
                time.sleep(_LOOK_S)
            for _ in range(_TERMS):
                process.send_signal(signal.SIGTERM)
                time.sleep(_BETWEEN_S)
            process.communicate()
            if process.returncode != _STOPPED:
                raise BenchError(f"twenty TERMs ended with {process.returncode}")
            lines = (folder / "ckpt/outcomes.jsonl").read_text().splitlines()
            return {"checkpoints": sum(json.loads(line)["published"] for line in lines)}

    return Result(_TERMS, medians([told("ours", storm()) for _ in range(plan.rounds)]))


def _startup(plan: Plan, trap: str = "") -> Result:
    """The launcher says when it is there: its own start is not what is looked at."""
    starts = plan.size(200, 2)

    def sweep() -> Figures:
        killed = 0
        with scratch() as folder:
            command = ["/bin/sh", "-c", f'{trap} echo launching; exec "$@"', "sh", *_run(folder), "--dry-run"]
            for nth in range(starts):
                with _talking(command) as process:
                    assert process.stdout is not None
                    process.stdout.readline()
                    time.sleep(_SWEPT_S * nth / starts)
                    process.send_signal(signal.SIGUSR1)
                    process.communicate()
                    killed += process.returncode == -signal.SIGUSR1
        return {"killed": killed, "of": starts}

    return Result(starts, medians([told("ours", sweep()) for _ in range(plan.rounds)]))


def _ignored(plan: Plan) -> Result:
    return _startup(plan, "trap '' USR1;")


def _run(folder: Path) -> list[str]:
    """Rows that stay in flight for as long as anybody measures."""
    words = ["-i", datasets.path("counter"), "-r", 200, "-o", folder / "out.jsonl", "-c", 64]
    words += ["--checkpoint-dir", folder / "ckpt", "--progress", "none", "--disable-aggregation"]
    return [*OURS, "run", *map(str, words)]


@contextmanager
def _talking(command: Sequence[str], *, tokens_per_s: float = 20) -> Iterator["subprocess.Popen[str]"]:
    """A process whose words are read while it runs, and that does not outlive the block."""
    settings: Mapping[str, str] = {**environment(), "TRIOCOLLECT_TOKENS_PER_S": str(tokens_per_s)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, env=settings, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


_MEASURED: Final[dict[str, Callable[[Plan], Result]]] = {
    "idle": _idle,
    "termstorm": _termstorm,
    "startup": _startup,
    "startup_ignored": _ignored,
}
CASES: Final = tuple(_MEASURED)
