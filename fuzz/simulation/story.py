"""What happens to a run: lives with orders, faults and deaths, and then one that nobody disturbs."""

from typing import Literal

import hypothesis.strategies as st
from attrs import field, frozen

from fuzz.simulation.network import Fault

SERVERS = ("environment", "agent", "policy_model", "inference", "counter")


@frozen
class Order:
    """Somebody asks for something, so many milliseconds after the life's first second."""

    at_ms: int
    what: Literal["USR1", "TERM", "INT"]


@frozen
class Fall:
    """A server dies and another process takes its place."""

    at_ms: int
    server: str


@frozen
class Death:
    """The machine dies: so many milliseconds in, or right before the nth time that something is synced."""

    at_ms: int | None = None
    at_sync: int | None = None


@frozen
class Life:
    """One run of the command. Without a death it ends by itself."""

    orders: tuple[Order, ...] = ()
    faults: frozenset[Fault] = frozenset()
    falls: tuple[Fall, ...] = ()
    death: Death | None = None
    every_s: float | None = None

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
    latency_ms: int
    lives: tuple[Life, ...] = field(factory=tuple)


moments = st.integers(0, 6000)
ways = st.sampled_from(["never arrives", "reply lost", "unnoticed"])
faults = st.one_of(
    st.builds(Fault, st.just("run"), st.integers(1, 8), ways),
    st.builds(Fault, st.just("control"), st.integers(1, 60), ways),
    st.builds(Fault, st.just("peer"), st.integers(1, 60), ways),
)
falls = st.builds(Fall, moments, st.sampled_from(SERVERS))
deaths = st.builds(Death, at_ms=moments) | st.builds(Death, at_sync=st.integers(1, 100))


@st.composite
def lives(draw):
    """Most have one trouble at most: what everything happens to shows little."""
    trouble = draw(st.sampled_from(["none", "none", "faults", "falls"]))
    end = draw(st.sampled_from(["by itself", "TERM", "INT", "death", "death"]))
    orders = [Order(at_ms, "USR1") for at_ms in draw(st.lists(moments, max_size=2))]
    if end in {"TERM", "INT"}:
        orders += [Order(at_ms, end) for at_ms in draw(st.lists(moments, min_size=1, max_size=2))]
    return Life(
        orders=tuple(sorted(orders, key=lambda order: order.at_ms)),
        faults=draw(st.frozensets(faults, min_size=1, max_size=3)) if trouble == "faults" else frozenset(),
        falls=tuple(draw(st.lists(falls, min_size=1, max_size=2))) if trouble == "falls" else (),
        death=draw(deaths) if end == "death" else None,
        every_s=draw(st.sampled_from([None, None, 0.3, 2.5])),
    )


stories = st.builds(
    Story,
    rows=st.integers(2, 7),
    concurrency=st.sampled_from([256, 4, 2, 1]),
    tokens_per_s=st.sampled_from([2.0, 1.0, 10.0]),
    latency_ms=st.sampled_from([1, 0, 20]),
    lives=st.lists(lives(), min_size=1, max_size=3).map(tuple),
)
