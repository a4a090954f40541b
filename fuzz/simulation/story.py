"""What happens to a run: lives with signals, faults and deaths, and then one that nobody disturbs."""

from typing import Literal

import hypothesis.strategies as st
from attrs import field, frozen

from fuzz.simulation.network import Fault

SERVERS = ("environment", "agent", "policy_model", "inference", "counter")


@frozen
class Moment:
    """Of a life: so many milliseconds in, right before the nth sync, or at the nth answer.

    That of one server to another, or of a participant to the controller.
    """

    at: int
    of: Literal["ms", "answers", "controls", "syncs"] = "ms"


@frozen
class Signal:
    """Somebody asks for something."""

    when: Moment
    what: Literal["USR1", "TERM", "INT"]


@frozen
class Fall:
    """A server dies and another process takes its place."""

    when: Moment
    server: str


@frozen
class Life:
    """One run of the command. Without a death it ends by itself.

    `harm`: what was damaged in the checkpoint directory before it. `concurrency`: another than the story's.
    `fresh`: it forgets all lives before it. `limit`: it has so many rows only.
    """

    signals: tuple[Signal, ...] = ()
    faults: frozenset[Fault] = frozenset()
    falls: tuple[Fall, ...] = ()
    death: Moment | None = None  # of the whole machine
    every_s: float | None = None
    harm: Literal["LATEST", "newest", "lock"] | None = None
    concurrency: int | None = None
    fresh: bool = False
    limit: int | None = None

    @property
    def is_disturbed(self):
        """Whether something happens to it that no collector can help."""
        return bool(self.faults or self.falls)


UNDISTURBED = Life()


@frozen
class Story:
    """All lives of a run, on one folder, with fresh servers each."""

    rows: int
    concurrency: int
    tokens_per_s: float
    latency_ms: int  # the longest way of a request or an answer
    control_ms: int  # that of a control call
    lives: tuple[Life, ...] = field(factory=tuple)
    mixed: bool = False  # every other row is of a resources server that cannot be captured


moments = st.one_of(
    st.builds(Moment, st.integers(1, 50), st.just("answers")),
    st.builds(Moment, st.integers(0, 4000)),
    st.builds(Moment, st.integers(1, 100), st.just("syncs")),
    st.builds(Moment, st.integers(1, 60), st.just("controls")),
)
ways = st.sampled_from(["never arrives", "reply lost", "unnoticed"])
faults = st.one_of(
    st.builds(Fault, st.just("run"), st.integers(1, 8), ways),
    st.builds(Fault, st.just("run"), st.integers(1, 8), st.sampled_from(["fails", "unwritten"])),
    st.builds(Fault, st.just("control"), st.integers(1, 60), ways),
    st.builds(Fault, st.just("control"), st.integers(1, 60), st.sampled_from(["nonsense", "another's"])),
    st.builds(Fault, st.just("peer"), st.integers(1, 60), ways),
)


@st.composite
def lives(draw):
    """Most have one trouble at most: what everything happens to shows little."""
    trouble = draw(st.sampled_from(["none", "none", "faults", "falls"]))
    end = draw(st.sampled_from(["TERM", "death", "TERM", "death", "INT", "by itself"]))
    signals = [Signal(moment, "USR1") for moment in draw(st.lists(moments, max_size=2))]
    if end in {"TERM", "INT"}:
        signals += [Signal(moment, end) for moment in draw(st.lists(moments, min_size=1, max_size=2))]
    falls = st.builds(Fall, moments, st.sampled_from(SERVERS))
    return Life(
        signals=tuple(signals),
        faults=draw(st.frozensets(faults, min_size=1, max_size=3)) if trouble == "faults" else frozenset(),
        falls=tuple(draw(st.lists(falls, min_size=1, max_size=2))) if trouble == "falls" else (),
        death=draw(moments) if end == "death" else None,
        every_s=draw(st.sampled_from([None, None, 0.3, 2.5])),
        harm=draw(st.sampled_from([None, None, None, "LATEST", "newest", "lock"])),
        concurrency=draw(st.sampled_from([None, None, 1, 2])),
        fresh=draw(st.sampled_from([False, False, False, True])),
        limit=draw(st.sampled_from([None, None, None, 1, 2])),
    )


stories = st.builds(
    Story,
    rows=st.integers(2, 6),
    concurrency=st.sampled_from([256, 4, 2, 1]),
    tokens_per_s=st.sampled_from([2.0, 0.5, 10.0]),
    latency_ms=st.sampled_from([500, 20, 0]),
    control_ms=st.sampled_from([5, 0, 100]),
    mixed=st.booleans(),
    lives=st.lists(lives(), min_size=1, max_size=3).map(tuple),
)
