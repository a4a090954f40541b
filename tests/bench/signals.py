"""What a signal does, and how soon, with the embedded deployment and rows in flight.

- `idle`: from USR1 to the word that a checkpoint has started, with 64 rows that wait for the model, against a
  bare `open_signal_receiver` program that writes a line;
- `large_reply`: the same with one row in flight, whose reply of 100 MB is arriving all the time;
- `termstorm`: twenty TERMs, one every 100 ms: how many checkpoints were published;
- `startup`: USR1 at ever later moments after exec, killing whom it meets before the program's first line;
- `startup_ignored`: the same under a launcher that ignores USR1.
"""

import json
import secrets
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
from tests.bench.telling import Crowd, command
from triocollect.deployment import datasets

_SWEPT_S: Final = 0.4  # of moments after exec
_TERMS: Final = 20
_BETWEEN_S: Final = 0.1
_STOPPED: Final = 75
_LOOK_S: Final = 0.01
_REST_S: Final = 0.3  # so that what the last checkpoint left to do is done
_WAITING: Final = Crowd(lines=128, repeats=200, in_flight=64)
_ONE_AT_A_TIME: Final = Crowd(lines=128, repeats=1, in_flight=1)
_LARGE_BYTES: Final = 100_000_000
_REPLY_S: Final = "1.0"  # from the first byte of a reply to its last


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where a process does not end, or does not answer, as it must."""
    return _MEASURED[case](plan)


def _idle(plan: Plan) -> Result:
    signals = plan.size(40, 3)

    def ours() -> Figures:
        with scratch() as folder, talking(command(folder, _WAITING), tokens_per_s=0.1) as process:
            return _delays(process, signals, "RowSent", "CheckpointStarted", "CheckpointEnded")

    return Result(signals, *interleaved(plan.rounds, ours, lambda: _peer(signals)))


def _large_reply(plan: Plan) -> Result:
    signals, size = plan.size(20, 2), plan.size(_LARGE_BYTES, _LARGE_BYTES // 10)

    def ours() -> Figures:
        token = secrets.token_hex()
        with scratch() as folder:
            serve = [PYTHON, "-m", "tests.bench.large_reply", str(folder / "ckpt"), str(size), _REPLY_S]
            with talking(serve, token=token) as servers:
                assert servers.stdout is not None
                urls = [servers.stdout.readline().strip() for _ in range(2)]
                where = [f"environment_url={urls[0]}", f"participant=model={urls[1]}"]
                with talking(command(folder, _ONE_AT_A_TIME, *where), token=token) as process:
                    return _delays(process, signals, "RowSent", "CheckpointStarted", "CheckpointEnded")

    return Result(signals, *interleaved(plan.rounds, ours, lambda: _peer(signals)))


def _peer(signals: int) -> Figures:
    with talking([PYTHON, "-m", "tests.bench.peers.bare_receiver"]) as process:
        return _delays(process, signals, "listening", "heard")


def _delays(process: "subprocess.Popen[str]", signals: int, ready: str, heard: str, *done: str) -> Figures:
    """From each USR1 to the line `heard`; `done` is waited for before the next."""
    assert process.stdout is not None
    awaited(process.stdout, ready)
    delays = []
    for _ in range(signals):
        time.sleep(_REST_S)
        began = time.perf_counter()
        process.send_signal(signal.SIGUSR1)
        awaited(process.stdout, heard)
        delays.append(time.perf_counter() - began)
        for line in done:
            awaited(process.stdout, line)
    return _spread(delays)


def _spread(delays: Sequence[float]) -> Figures:
    centiles = statistics.quantiles(delays, n=100, method="inclusive")
    return {"p50_ms": centiles[49] * 1000, "p99_ms": centiles[98] * 1000}


def awaited(words: Iterator[str], wanted: str) -> str:
    """The next line with this word. Raises BenchError where there is none."""
    for word in words:
        if wanted in word:
            return word
    raise BenchError(f"ended before it said {wanted!r}")


def _termstorm(plan: Plan) -> Result:
    def storm() -> Figures:
        with scratch() as folder, talking(_run(folder)) as process:
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
            launcher = ["/bin/sh", "-c", f'{trap} echo launching; exec "$@"', "sh"]
            for nth in range(starts):
                with talking([*launcher, *_run(folder), "--dry-run"]) as process:
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
def talking(
    words: Sequence[str], *, tokens_per_s: float = 20, token: str | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A process whose words are read while it runs, and that does not outlive the block."""
    settings: Mapping[str, str] = {
        **environment(),
        "TRIOCOLLECT_TOKENS_PER_S": str(tokens_per_s),
        **({} if token is None else {"TRIOCOLLECT_CONTROL_TOKEN": token}),
    }
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, env=settings, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


_MEASURED: Final[dict[str, Callable[[Plan], Result]]] = {
    "idle": _idle,
    "large_reply": _large_reply,
    "termstorm": _termstorm,
    "startup": _startup,
    "startup_ignored": _ignored,
}
CASES: Final = tuple(_MEASURED)
