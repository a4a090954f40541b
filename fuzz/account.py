"""What one life of a collector left behind, read from files when it and its servers are dead.

The accounts are those of others than the collector: the environment's of every effect, the model's of every
call; and there are the bytes of output, sidecar and dispatch log. Nothing of the product is used but the
types of its files.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from attrs import evolve, field, frozen

from fuzz.boundaries import Checkpoint, read_checkpoint
from fuzz.invariants import said
from fuzz.rules import change
from fuzz.states import State, read_state
from triocollect.protocol.manifests import CheckpointOutcome, Dispatched, DispatchHeader

T = TypeVar("T")

STOPPED: Final = 75
INTERRUPTED: Final = 130  # by a second Ctrl-C, which may come when the first one's checkpoint is published
SERVER_DIED: Final = 1
LEAVES_ONE: Final = frozenset({STOPPED, INTERRUPTED, SERVER_DIED})  # ends that may come amid a checkpoint
KEPT: Final = 2  # checkpoints


class Effect(msgspec.Struct, frozen=True):
    """A line of an environment's account; `state` is that after the effect. `source`: which environment."""

    rollout_id: str
    attempt: int
    effect: str
    arguments: msgspec.Raw
    state: State
    source: str = "counter"

    @property
    def change(self):
        """What it does, in one value."""
        return change(self.source, self.effect, self.arguments)


class _Written(msgspec.Struct, frozen=True):
    rollout_id: str
    attempt: int
    effect: str
    arguments: msgspec.Raw
    state: msgspec.Raw


class Call(msgspec.Struct, frozen=True):
    """A line of the model's account: a call that ended, whichever way.

    `continued_at`: so many tokens of its answer were generated before, and are not among the others.
    """

    capture_key: str
    finished: bool
    output_tokens: int
    continued_at: int = 0


class Usage(msgspec.Struct, frozen=True):
    output_tokens: int = 0


class Response(msgspec.Struct, frozen=True):
    usage: Usage = Usage()


class Line(msgspec.Struct, frozen=True):
    """A line of output or sidecar, as far as it says what was done; a counter's with its values."""

    task: int = msgspec.field(name="_ng_task_index")
    rollout: int = msgspec.field(name="_ng_rollout_index")
    attempt: int = msgspec.field(name="_ng_attempt_index", default=0)
    reward: float | None = None
    start_value: int | None = None
    final_value: int | None = None
    effects: int | None = None
    response: Response = Response()

    @property
    def tokens(self):
        """Those that the model generated, as far as the result knows."""
        return self.response.usage.output_tokens

    @property
    def rollout_id(self):
        return f"{self.task}-{self.rollout}"

    @property
    def capture_key(self):
        return capture_key(self.rollout_id, self.attempt)


@frozen(kw_only=True)
class Life:
    """`lines` and `failures` are all that are there by now; what was sent and done is this life's alone.

    `sent` and `effects` are by rollout, `calls` by capture key. `published`: the checkpoint that the last try
    in the directory brought, if it brought one. `anew`: its servers may have been up
    before, and then rows start from their input. `rests`: what a publish that came to its end has removed.
    """

    code: int = 0
    lines: tuple[Line, ...] = ()
    failures: tuple[Line, ...] = ()
    acknowledged: frozenset[str] = frozenset()
    sent: Mapping[str, list[int]] = field(factory=dict)
    effects: Mapping[str, list[Effect]] = field(factory=dict)
    calls: Mapping[str, list[Call]] = field(factory=dict)
    checkpoint: Checkpoint | None = None
    published: str | None = None
    anew: bool = False
    rests: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def finished(self):
        return frozenset(line.rollout_id for line in self.lines)


class Witness:
    """Looks at a run's files after each of its lives."""

    def __init__(self, folder: Path, *, standing: bool = False) -> None:
        """`folder` holds out.jsonl, ckpt/ and accounts/.

        `standing`: servers outlive collectors; what they do late counts to the life that asked for it.
        """
        self._folder, self._standing = folder, standing
        self._seen: dict[str, int] = defaultdict(int)
        self._log: tuple[DispatchHeader | None, int] = (None, 0)
        self._highest: dict[str, int] = {}
        self.lives: list[Life] = []

    def look(self, code: int, acknowledged: Iterable[str] = (), *, anew: bool = False) -> Life:
        """Remember, and return, what the life that has just ended left behind."""
        directory = self._folder / "ckpt"
        faults: list[str] = []
        life = Life(
            code=code,
            lines=tuple(read(self._folder / "out.jsonl", Line)),
            failures=tuple(read(self._folder / "out_failures.jsonl", Line)),
            acknowledged=frozenset(acknowledged),
            sent=self._sent(directory / "dispatched.jsonl"),
            effects=grouped(self._effects(), lambda effect: effect.rollout_id),
            calls=grouped(self._new("inference", Call), lambda call: call.capture_key),
            checkpoint=read_checkpoint(directory, faults),
            published=_published(directory / "outcomes.jsonl"),
            anew=anew,
            rests=tuple(rests(directory, most=KEPT + (code in LEAVES_ONE))),
        )
        self.lives.append(evolve(life, faults=tuple(faults)))
        if self._standing:
            self.lives = returned(self.lives)
        return self.lives[-1]

    def _effects(self) -> list[Effect]:
        """Those of every environment that has an account."""
        sources = sorted(path.stem for path in (self._folder / "accounts").glob("*.jsonl"))
        return [
            Effect(line.rollout_id, line.attempt, line.effect, line.arguments, read_state(line.state), source)
            for source in sources
            if source != "inference"
            for line in self._new(source, _Written)
        ]

    def _new(self, name: str, kind: type[T]) -> list[T]:
        lines = read(self._folder / "accounts" / f"{name}.jsonl", kind)
        seen, self._seen[name] = self._seen[name], len(lines)
        return lines[seen:]

    def _sent(self, path: Path) -> dict[str, list[int]]:
        """Each life begins the log anew, with the highest attempt of every rollout that is not finished."""
        data = path.read_bytes() if path.exists() else b""
        if not data:
            return {}
        head, *lines = data[: data.rfind(b"\n")].split(b"\n")
        header = msgspec.json.decode(head, type=DispatchHeader)
        logged = [msgspec.json.decode(line, type=Dispatched) for line in lines]
        same = self._log[0] is not None and self._log[0].epoch == header.epoch
        known, sent = {} if same else dict(self._highest), defaultdict(list)
        for line in logged[self._log[1] if same else 0 :]:
            if known.pop(line.rollout_id, None) != line.attempt:
                sent[line.rollout_id].append(line.attempt)
        self._log = header, len(logged)
        for rollout_id, attempts in sent.items():
            self._highest[rollout_id] = max(self._highest.get(rollout_id, -1), *attempts)
        return dict(sent)


def returned(lives: list[Life]) -> list[Life]:
    """What attempts of earlier lives did in the last one, given back to those."""
    last, earlier, faults = lives[-1], [], list(lives[-1].faults)
    effects, calls = dict(last.effects), dict(last.calls)
    for life in lives[:-1]:
        its_effects, its_calls = dict(life.effects), dict(life.calls)
        for row, attempts in life.sent.items():
            late = [one for one in effects.get(row, ()) if one.attempt in attempts]
            if late:
                its_effects[row] = [*its_effects.get(row, ()), *late]
                if late != effects[row][: len(late)]:
                    faults.append(said(2, f"{row}: an attempt of an earlier life ran beside a later one"))
                effects[row] = [one for one in effects[row] if one not in late]
            for key in (capture_key(row, attempt) for attempt in attempts):
                its_calls[key] = [*its_calls.get(key, ()), *calls.pop(key, ())]
        earlier.append(evolve(life, effects=its_effects, calls=its_calls))
    return [*earlier, evolve(last, effects=effects, calls=calls, faults=tuple(faults))]


def capture_key(rollout_id: str, attempt: int) -> str:
    return f"{rollout_id}-a{attempt}" if attempt else rollout_id


def read(path: Path, kind: type[T]) -> list[T]:
    """The whole lines of a file; half a line was never written."""
    data = path.read_bytes() if path.exists() else b""
    return [msgspec.json.decode(line, type=kind) for line in data.split(b"\n")[:-1]]


def grouped(things: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = defaultdict(list)
    for thing in things:
        groups[key(thing)].append(thing)
    return dict(groups)


def rests(directory: Path, most: int = KEPT) -> list[str]:
    """What nobody needs any more. `most`: what ends in the middle leaves one to the next start to remove."""
    names = [path.name for path in directory.iterdir()] if directory.exists() else []
    drafts = [f"{name} was left" for name in names if name.endswith(".tmp")]
    folders = [name for name in names if name.startswith("ckpt-")]
    return drafts + (
        [f"more than {most} checkpoints are kept: {sorted(folders)}"] if len(folders) > most else []
    )


def _published(path: Path) -> str | None:
    data = path.read_bytes() if path.exists() else b""
    for line in reversed(data.split(b"\n")[:-1]):
        try:
            outcome = msgspec.json.decode(line, type=CheckpointOutcome)
        except msgspec.DecodeError:
            continue
        return outcome.checkpoint_id if outcome.published else None
    return None
