"""How long a checkpoint keeps the rows waiting, with 10, 100 and 1,000 of them in flight.

`pause_s`: from the closed gate to the last answered resume, on the embedded deployment, whose rows wait for
the model. `bytes`: of the records. The peer writes the same files again with the same syncs, one after
another.

`1000_generating`: each of a thousand rows has an answer of which tokens are there, and which is cut; the peer
is the same run with `--cuts off`.
"""

import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from tests.bench.harness import (
    PYTHON,
    ROOT,
    BenchError,
    Figures,
    Plan,
    Result,
    environment,
    medians,
    scratch,
    told,
)
from tests.bench.signals import awaited, talking
from tests.bench.telling import Crowd, command
from triocollect.deployment import datasets

_CROWDS: Final = {
    "10": Crowd(lines=10, repeats=1, in_flight=10),
    "100": Crowd(lines=100, repeats=1, in_flight=100),
    "1000": Crowd(lines=125, repeats=8, in_flight=1000),
}
GENERATING: Final = "1000_generating"
_QUICK: Final = Crowd(lines=4, repeats=1, in_flight=4)
_REST_S: Final = 1.0  # of a checkpoint after the other, until two are alike
_BEGUN_S: Final = 3.0  # after which every answer has tokens, at one in a second, and none is whole
_WARM: Final = 2  # checkpoints before the one that counts
CASES: Final = (*_CROWDS, GENERATING)


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where nothing is published, or a process does not end as it must."""
    if case == GENERATING:
        return _of_generating(_QUICK if plan.quick else _CROWDS["1000"], plan.rounds)
    crowd = _QUICK if plan.quick else _CROWDS[case]
    measured = [_round(crowd) for _ in range(plan.rounds)]
    ours, peer = medians([one for one, _ in measured]), medians([other for _, other in measured])
    return Result(crowd.in_flight, ours, peer, {"pause": ("pause_s", "write_s")})


def _round(crowd: Crowd) -> tuple[Figures, Figures]:
    with scratch() as folder:
        with talking(command(folder, crowd), tokens_per_s=0.1) as process:
            assert process.stdout is not None
            settle(process, crowd)
            process.send_signal(signal.SIGUSR1)
            _, began, _ = awaited(process.stdout, "CheckpointStarted").split()
            _, ended, size = awaited(process.stdout, "CheckpointEnded").split()
        ours = told("ours", {"pause_s": float(ended) - float(began), "bytes": int(size)})
        return ours, told("peer", _written_again(folder))


def _of_generating(crowd: Crowd, rounds: int) -> Result:
    ours, peer = [], []
    for _ in range(rounds):
        for who, cuts, measured in (("ours", "on", ours), ("peer", "off", peer)):
            with scratch() as folder:
                measured.append(told(who, {"pause_s": _pause_generating(folder, crowd, cuts)}))
                there = list((folder / "ckpt").glob("staging/*.jsonl"))
                if bool(there) != (cuts == "on"):
                    raise BenchError(f"with cuts {cuts} there are {len(there)} packs of staged cuts")
    return Result(crowd.in_flight, medians(ours), medians(peer))


def _pause_generating(folder: Path, crowd: Crowd, cuts: str) -> float:
    where = f"input={datasets.path('instructions')}", f"cuts={cuts}"
    with talking(command(folder, crowd, *where), tokens_per_s=1.0) as process:
        assert process.stdout is not None
        for _ in range(crowd.in_flight):
            awaited(process.stdout, "RowSent")
        time.sleep(_BEGUN_S)
        pause_s = 0.0
        for _ in range(_WARM + 1):
            process.send_signal(signal.SIGUSR1)
            _, began, _ = awaited(process.stdout, "CheckpointStarted").split()
            _, ended, _ = awaited(process.stdout, "CheckpointEnded").split()
            pause_s = float(ended) - float(began)
        return pause_s


def settle(process: "subprocess.Popen[str]", crowd: Crowd) -> None:
    """Return when all rows are in flight and wait for the model: what is in a checkpoint then is whole."""
    assert process.stdout is not None
    for _ in range(crowd.in_flight):
        awaited(process.stdout, "RowSent")
    size, before = 0, -1
    while size != before:
        time.sleep(_REST_S)
        process.send_signal(signal.SIGUSR1)
        before, size = size, int(awaited(process.stdout, "CheckpointEnded").split()[-1])


def _written_again(folder: Path) -> Figures:
    published = max((folder / "ckpt").glob("ckpt-*/collection.json"), default=None)
    if published is None:
        raise BenchError("no checkpoint was published")
    words = [PYTHON, "-m", "tests.bench.peers.write_files", published.parent, folder / "again"]
    said = subprocess.run(words, cwd=ROOT, env=environment(), check=True, capture_output=True, text=True)
    return {"write_s": float(said.stdout)}
