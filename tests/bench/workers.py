"""What several workers of each server do to a run on the embedded deployment, against one process of each.

- `1`, `2`, `4`: so many workers. `rows_per_s`: with 64 rows in flight and a model that answers at once;
  `pause_s`: of a checkpoint in the middle of that. The peer is one process of each server in the same round;
- `4to1`, `1to4`: `first_run_s`, as `restore` measures it, of 1,000 episodes that so many workers held and so
  many others take up.

Quickly looked at, no server has more than two: processes take long to start.
"""

import secrets
import signal
import subprocess
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from tests.bench.harness import Figures, Plan, Result, interleaved, medians, scratch, told
from tests.bench.restore import first_run, serving
from tests.bench.signals import awaited, talking
from tests.bench.telling import Crowd, command

_RUNNING: Final = Crowd(lines=128, repeats=8, in_flight=64)
_RESTORED: Final = Crowd(lines=125, repeats=8, in_flight=1000)
_QUICKLY: Final = Crowd(lines=24, repeats=1, in_flight=4)
_FEW: Final = Crowd(lines=4, repeats=1, in_flight=4)
_COUNTS: Final = {"1": 1, "2": 2, "4": 4}
_CHANGES: Final = {"4to1": (4, 1), "1to4": (1, 4)}
_AT_ONCE: Final = 1e6  # tokens per second
CASES: Final = (*_COUNTS, *_CHANGES)


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where a process does not end, or does not say, as it must."""
    most = plan.size(max(_COUNTS.values()), 2)
    if case in _CHANGES:
        crowd = _FEW if plan.quick else _RESTORED
        before, after = (min(count, most) for count in _CHANGES[case])
        measured = [told("ours", _restored(crowd, before, after)) for _ in range(plan.rounds)]
        return Result(crowd.in_flight, medians(measured))
    crowd, count = _QUICKLY if plan.quick else _RUNNING, min(_COUNTS[case], most)
    ours, peer = interleaved(plan.rounds, lambda: _run(crowd, count), lambda: _run(crowd, 1))
    return Result(crowd.lines * crowd.repeats, ours, peer)


def _run(crowd: Crowd, workers: int) -> Figures:
    """Once all places are taken a row is sent whenever another one has ended: half of them, then a pause."""
    half = crowd.lines * crowd.repeats // 2
    with scratch() as folder, _talking(folder, crowd, workers) as process:
        assert process.stdout is not None
        sent = [float(awaited(process.stdout, "RowSent").split()[1]) for _ in range(half)]
        process.send_signal(signal.SIGUSR1)
        _, began, _ = awaited(process.stdout, "CheckpointStarted").split()
        _, ended, _ = awaited(process.stdout, "CheckpointEnded").split()
        process.communicate()
    rate = (half - crowd.in_flight) / (sent[-1] - sent[crowd.in_flight - 1])
    return {"rows_per_s": rate, "pause_s": float(ended) - float(began)}


def _talking(folder: Path, crowd: Crowd, workers: int) -> AbstractContextManager["subprocess.Popen[str]"]:
    return talking(command(folder, crowd, f"workers={workers}"), tokens_per_s=_AT_ONCE)


def _restored(crowd: Crowd, before: int, after: int) -> Figures:
    with scratch() as folder:
        _life(folder, crowd, before)
        return {"first_run_s": _life(folder, crowd, after)}


def _life(folder: Path, crowd: Crowd, workers: int) -> float:
    """On no more servers than the rows need, each started alone."""
    token = secrets.token_hex()
    with ExitStack() as opened:

        def serve(name: str, **peers: str) -> str:
            words = [word for peer, url in peers.items() for word in ("--peer", f"{peer}={url}")]
            several = () if name == "inference" else ("--workers", str(workers))
            return opened.enter_context(serving(folder, name, *words, *several, token=token))

        counter, inference = serve("counter"), serve("inference")
        model = serve("model", inference=inference)
        agent = serve("agent", counter=counter, policy_model=model)
        head = serve("environment", counter=counter, agent=agent, policy_model=model)
        return first_run(folder, crowd, head, token)
