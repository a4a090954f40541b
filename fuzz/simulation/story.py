"""What happens to a run: lives with signals, faults and deaths, and then one that nobody disturbs."""

import hashlib
from typing import Final, Literal

import msgspec

SERVERS: Final = ("environment", "agent", "policy_model", "inference", "counter")
CREWED: Final = ("environment", "agent", "policy_model", "counter")  # that may have several workers
CHECKPOINT_S: Final = 20.0  # its deadline
DAMAGED: Final = ("LATEST", "newest", "lock")

Door = Literal["run", "control", "peer", "other"]
How = Literal[
    "never arrives",  # the connection breaks before anything of it is heard
    "reply lost",  # it is carried out, and the connection breaks before the answer
    "unnoticed",  # the connection breaks, and the server carries it out and never learns of that
    "late",  # it is long on its way; its caller may have gone meanwhile
    "late reply",  # its answer is
    "buffered",  # its answer is sent, and read some time later
    "stray",  # the connection breaks at once, and it is carried out long afterwards
    "twice",  # it arrives once more, some time later
    "hangs",  # nobody hears it, and the connection stays
    "gateway",  # something between the two answers with 503 and asks nobody
    "gateway after",  # the same with 504, and the server carries it out
    "busy",  # the server takes no more work for now, and says so
    "nonsense",  # what was done is answered with no JSON
    "another's",  # and as by another process
    "fails",  # a rollout ends, with a failure
    "unwritten",  # and with the wish that nothing be written
]
Of = Literal["ms", "answers", "controls", "syncs", "files"]


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """What happens to the `nth` request (from 1) through a door."""

    door: Door
    nth: int
    how: How


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """Of a life: so many milliseconds in; at the nth answer of one server to another, or of a participant to

    the controller; right before the nth sync, or the nth change of a file or folder, whoever makes it.
    """

    at: int
    of: Of = "ms"


class Signal(msgspec.Struct, frozen=True, array_like=True):
    """Somebody asks for something; ASK is a program that calls the library.

    RIVAL is the same command once more, or one with another output and the same checkpoints, which has to
    be refused while the first is at work.
    """

    when: Moment
    what: Literal["USR1", "TERM", "INT", "ASK", "RIVAL"]


class Break(msgspec.Struct, frozen=True, array_like=True):
    """All connections of rows break. `seen` by the servers alone: the collector goes on waiting."""

    when: Moment
    seen: Literal["by both", "by servers"] = "by both"


class Fall(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A server dies and another process takes its place. Or one `worker` of it does, from 1, and its place

    is empty for a while.
    """

    when: Moment
    server: str
    worker: int = 0
    away_ms: int = 0


class Death(msgspec.Struct, frozen=True, array_like=True):
    """The end of a life. `of` the collector: servers that stand go on. Of the machine: what nobody synced

    may be lost, torn, or there before what was written earlier.
    """

    when: Moment
    of: Literal["collector", "everybody", "machine"] = "everybody"


class Trouble(msgspec.Struct, frozen=True, array_like=True):
    """`count` changes of files fail, from the `nth` on: all kinds, or writes and syncs (a disk is full)."""

    nth: int
    count: int
    what: Literal["EIO", "ENOSPC"]


class Life(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of the command. Without a death it ends by itself.

    `harm`: what was damaged in the checkpoint directory before it. `concurrency`: another than the story's.
    `fresh`: it forgets all lives before it. `limit`: it has so many rows only. `leap`: the machine sleeps for
    a day. `slow_ms`: what blocks in the collector takes so long. `workers`: others than the story's.
    """

    signals: tuple[Signal, ...] = ()
    faults: tuple[Fault, ...] = ()
    falls: tuple[Fall, ...] = ()
    breaks: tuple[Break, ...] = ()
    death: Death | None = None
    disk: tuple[Trouble, ...] = ()
    leap: Moment | None = None
    slow_ms: int = 0
    every_s: float | None = None
    harm: Literal["LATEST", "newest", "lock"] | None = None
    concurrency: int | None = None
    fresh: bool = False
    limit: int | None = None
    workers: dict[str, int] | None = None

    @property
    def is_disturbed(self) -> bool:
        """Whether something happens to it that no collector can help."""
        return bool(self.faults or self.falls or self.breaks or self.disk or self.leap)

    def workers_in(self, story: "Story") -> dict[str, int]:
        """How many a server has, by its name, where it has more than one."""
        return story.workers if self.workers is None else self.workers

    @property
    def planned(self) -> int:
        """How many signals and faults there are to be."""
        named = (self.death, self.leap, self.harm)
        return sum(map(len, (self.signals, self.faults, self.falls, self.breaks, self.disk))) + sum(
            one is not None for one in named
        )


_MORE: Final = (40, 1, 7)  # after the first, which says which row it is
UNDISTURBED: Final = Life()


class Story(msgspec.Struct, frozen=True, omit_defaults=True):
    """All lives of a run, on one folder.

    `latency_ms`, `control_ms`: the longest way of a request or an answer, and of a control call. `mixed`:
    every other row is of a resources server that cannot be captured. `standing`: the servers outlive the
    collector; else each life has its own. `changes`: what a rollout takes, beside its seed. `workers`: how
    many a server has, by its name, where it has more than one; `link_ms`: the longest way of what they and
    their coordinator tell each other.
    """

    rows: int
    concurrency: int = 256
    tokens_per_s: float | None = 2.0
    latency_ms: int = 0
    control_ms: int = 0
    lives: tuple[Life, ...] = ()
    mixed: bool = False
    standing: bool = False
    changes: int = 2
    dice: int = 1
    workers: dict[str, int] = {}
    link_ms: int = 0

    @property
    def is_without_power(self) -> bool:
        """At one of its moments."""
        return any(life.death is not None and life.death.of == "machine" for life in self.lives)

    @property
    def text(self) -> str:
        """All of it, in one line that `told_by` understands."""
        return msgspec.json.encode(self).decode()

    @property
    def digest(self) -> str:
        """A name for it."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()


def steps_of(row: int, changes: int) -> tuple[int, ...]:
    """What a rollout of a row adds, one after the other."""
    return (row + 1, *_MORE[: changes - 1])


def told_by(text: str) -> Story:
    """The story of a text. Raises ValueError."""
    return msgspec.json.decode(text, type=Story)
