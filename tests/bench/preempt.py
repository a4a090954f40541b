"""What a preemption costs: model calls and tokens of a run that is preempted, against one that is left alone.

Rows of a counter, of blackjack and of SQL, each a conversation of several turns with effects that show
when they are repeated, and rows that are one long answer. The run gets TERM at seeded moments, three times,
and is started again with new servers each time:

- `triocollect`: with a checkpoint directory;
- `restart_from_input`: without one, which is what a collector can do that does not own its rows.

`identical` is how many rows came about as in the run that was left alone, by the account that environment and
model keep themselves and by the oracle of `fuzz/`; `n` is how many there are. `undelivered_calls` were made
for nothing: their answers are in no boundary that a row went on from. `tokens` are those that the model
generated, `needed_tokens` those that are in the results, and `uncut_tokens` those that were generated and not
kept at a stop: of calls that could not be cut. The peer's figures do not depend on time: it is run once, as
fast as it can be.
"""

import functools
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

from attrs import evolve

from fuzz.account import Life, Witness
from fuzz.attempts import Whole
from fuzz.boundaries import Boundary
from fuzz.oracle import judge, uninterrupted
from tests.bench.harness import (
    OURS,
    BenchError,
    Figures,
    Plan,
    Result,
    medians,
    note,
    scratch,
    started,
    told,
)
from triocollect.deployment import datasets
from triocollect.protocol.ids import EpisodeId

CASES: Final = ("triocollect", "restart_from_input")
_SHARES: Final = {"counter": 0.25, "sql": 0.25, "blackjack": 0.25, "instructions": 0.25}
_TOKENS_PER_S: Final = 10  # a turn takes a tenth of a second, a row about one
_EFFECTS: Final = (0.5, 0.9)  # so many for each row, of about five, before a life is told to stop
_LOOK_S: Final = 0.01
_ROW: Final = re.compile(r"^(?:life \d+: )?(\d+-\d+)\b")
_STOPPED: Final = {True: (75,), False: (-signal.SIGTERM,)}
_ENDED: Final = (0, 3)  # a scripted model that is wrong about a row is no failure of the bench


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where a run does not end as it must, or the oracle sees more than rows repeated."""
    rows, stops = plan.size(100, 12), plan.size(3, 1)
    wholes = _wholes(rows)
    measured = []
    for nth in range(plan.rounds):
        with scratch() as folder:
            lives = Lives(folder, rows, continues=case == "triocollect")
            lives.preempt(random.Random(nth), stops)
            measured.append(told("ours", _figures(lives.seen, wholes, continues=lives.continues)))
    peer = {
        "model_calls": sum(whole.calls for whole in wholes.values()),
        "tokens": sum(whole.tokens for whole in wholes.values()),
    }
    return Result(rows, medians(measured), told("peer", peer))


@functools.cache
def _wholes(rows: int) -> Mapping[str, Whole]:
    """The run that is left alone."""
    with scratch() as folder:
        lives = Lives(folder, rows, continues=False, tokens_per_s=None)
        lives.live()
        measured = uninterrupted(lives.seen[0])
        if violations := _judge(lives.seen, measured, continues=False):
            raise BenchError(f"the run that was left alone: {violations}")
        return measured


class Lives:
    """One output, and the processes that write it, one after the other."""

    def __init__(self, folder: Path, rows: int, *, continues: bool, tokens_per_s: int | None = _TOKENS_PER_S):
        self.continues: Final = continues
        self._folder, self._witness = folder, Witness(folder)
        self._accounts, self._rows = folder / "accounts", rows
        words = ["-i", _mixed(folder / "in.jsonl", rows), "-o", folder / "out.jsonl", "-c", rows // 4]
        words += ["--checkpoint-dir", folder / "ckpt"] if continues else []
        self._command = [*OURS, "run", *map(str, words), "--progress", "none", "--disable-aggregation"]
        self._settings = {"TRIOCOLLECT_EFFECTS_DIR": str(self._accounts)}
        if tokens_per_s is not None:
            self._settings["TRIOCOLLECT_TOKENS_PER_S"] = str(tokens_per_s)

    @property
    def seen(self) -> Sequence[Life]:
        """What was left, life by life."""
        return self._witness.lives

    def preempt(self, dice: random.Random, stops: int) -> None:
        """Live until everything is done, and be told to stop so many times on the way."""
        for _ in range(stops):
            self.live(int(self._rows * dice.uniform(*_EFFECTS)))
        self.live()

    def live(self, effects: int | None = None) -> None:
        """One life, told to stop after so many effects of its own. Its servers are gone with it."""
        accounts, codes = [self._accounts / f"{name}.jsonl" for name in _SHARES], _ENDED
        with started(self._command, self._folder / "process.log", self._settings) as child:
            if effects is not None:
                codes = _STOPPED[self.continues]
                wanted = _lines(accounts) + effects
                while _lines(accounts) < wanted:
                    if child.ended(_LOOK_S):
                        raise BenchError(child.words("ended before it could be preempted"))
                child.terminate()
            code = child.wait(codes=codes).exit_code
            while _servers(self._accounts):
                time.sleep(_LOOK_S)
        self._witness.look(code)


def _figures(lives: Sequence[Life], wholes: Mapping[str, Whole], *, continues: bool) -> Figures:
    calls = [call for life in lives for of_one in life.calls.values() for call in of_one]
    violations = _judge(lives, wholes, continues=continues)
    if continues:
        for violation in violations:
            note(f"  {violation}")
    different = {_row_in(violation) for violation in violations}
    undelivered, uncut = _lost(lives)
    return {
        "identical": len(wholes.keys() - different),
        "model_calls": len(calls),
        "tokens": sum(call.output_tokens for call in calls),
        "needed_tokens": sum(line.tokens for line in lives[-1].lines),
        "undelivered_calls": undelivered,
        "uncut_tokens": uncut,
    }


def _judge(lives: Sequence[Life], wholes: Mapping[str, Whole], *, continues: bool) -> list[str]:
    """What the oracle has to say. Without a checkpoint directory no log tells it what was sent."""
    if not continues:
        lives = [evolve(life, sent=_attempts(life), faults=()) for life in lives]
    return judge(lives, wholes)


def _attempts(life: Life) -> dict[str, list[int]]:
    episodes = {EpisodeId.parse(key) for key in life.calls}
    episodes |= {EpisodeId(row, one.attempt) for row, effects in life.effects.items() for one in effects}
    return {
        row: sorted(one.attempt for one in episodes if one.rollout_id == row)
        for row in {one.rollout_id for one in episodes}
    }


def _row_in(violation: str) -> str:
    if (named := _ROW.match(violation)) is None:
        raise BenchError(f"the oracle says: {violation}")
    return named[1]


def _lost(lives: Sequence[Life]) -> tuple[int, int]:
    """Calls, and tokens, of rows that a stop met unfinished, beyond what they are kept with."""
    made, undelivered = Counter[str](), Counter[str]()
    generated, uncut = Counter[str](), Counter[str]()
    for life in lives:
        for key, calls in life.calls.items():
            row = EpisodeId.parse(key).rollout_id
            made[row] += len(calls)
            generated[row] += sum(call.output_tokens for call in calls)
        kept = {} if life.checkpoint is None else life.checkpoint.kept
        for row in made.keys() - life.finished:
            boundary = kept.get(row)
            undelivered[row] = made[row] - (0 if boundary is None else boundary.calls)
            uncut[row] = generated[row] - (0 if boundary is None else _kept_tokens(boundary))
    return undelivered.total(), uncut.total()


def _kept_tokens(boundary: Boundary) -> int:
    return boundary.tokens + (0 if boundary.cut is None else boundary.cut.tokens)


def _mixed(path: Path, rows: int) -> Path:
    """So many rows of each kind, written there."""
    kinds = [
        datasets.path(name).read_bytes().splitlines(keepends=True)[: round(rows * share)]
        for name, share in _SHARES.items()
    ]
    path.write_bytes(b"".join(line for turn in zip_longest(*kinds, fillvalue=b"") for line in turn))
    return path


def _lines(paths: Sequence[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths if path.exists())


def _servers(accounts: Path) -> list[Path]:
    """Those of this bench's deployment that still run."""
    mark = f"TRIOCOLLECT_EFFECTS_DIR={accounts}".encode()
    return [process for process in Path("/proc").glob("[0-9]*") if _serves(process, mark)]


def _serves(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
