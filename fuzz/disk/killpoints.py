"""`python -m fuzz killpoints`: SIGKILL before every call that changes a file, and amid every write.

The calls are those of a start, rows, checkpoints, a stop, a resume and a fresh run (`places.py`), collector
and servers in one process that dies as a whole. The next life goes on to the end, and nothing that anybody
was told may be missing; every fourth time it is killed as well, and the one after it goes on.
"""

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from fuzz.commands import Options
from fuzz.disk.afterwards import afterwards
from fuzz.disk.calls import Call
from fuzz.disk.children import End, lived, why
from fuzz.disk.one_by_one import one_by_one
from fuzz.disk.places import SCENARIOS, Scenario, calls_of, counts, named, next_life, scene
from fuzz.invariants import BrokenError
from fuzz.jobs import share
from fuzz.simulation.world import World
from fuzz.tally import Tally

TWICE: Final = 4  # one in so many is killed a second time
SECOND: Final = 90  # at one of so many calls of the resume


@frozen
class Point:
    """The `nth` call of a scenario, in words; `amid`: half of that write is done."""

    scenario: Scenario
    nth: int
    call: str
    amid: bool

    def __str__(self) -> str:
        return f"{self.scenario.name}:{self.nth}:{'amid' if self.amid else 'before'}"


class Killer:
    """Kills this process at a call."""

    def __init__(self, nth: int, *, amid: bool = False) -> None:
        self._left, self._amid, self._dying = nth, amid, False

    def before(self, call: Call) -> int | None:
        if not counts(call):
            return None
        self._left -= 1
        if self._left == 0:
            if self._amid and call.name == "write":
                self._dying = True
                return len(call.data) // 2
            _die()
        return None

    def after(self, _call: Call) -> None:
        if self._dying:
            _die()


def explore(options: Options, tally: Tally) -> None:
    """Point after point, from another one each time."""
    share(_points, options, tally)


def _points(options: Options, tally: Tally) -> None:
    first, _, twice = (options.replay or "").partition("+")
    for point, base in one_by_one(options, all_points, named=None if options.replay is None else first):
        dice = random.Random(f"{options.seed} {point}")
        drawn = dice.randint(1, SECOND) if dice.randrange(TWICE) == 0 else 0
        kill(point, base, tally, second=int(twice or 0) if first else drawn)


def all_points(made: dict[str, Path]) -> Iterator[Point]:
    """Every one of the scenarios that there are bases of."""
    for scenario in (one for one in SCENARIOS if one.name in made):
        for nth, call in enumerate(calls_of(scenario, made[scenario.name]), 1):
            yield Point(scenario, nth, call, amid=False)
            if call.startswith("write"):
                yield Point(scenario, nth, call, amid=True)


def kill(point: Point, base: Path, tally: Tally, *, second: int = 0) -> None:
    """Die there, see what is left, and go on to the end. `second`: the call at which the next life dies."""
    replay = tally.replay(f"{point}+{second}" if second else str(point))
    with scene(point.scenario, base) as world:
        ends = [lived(world, Killer(point.nth, amid=point.amid))]
        if ends[0] == "killed" and second:
            next_life(world)
            ends.append(lived(world, Killer(second)))
        faults = [fault for end in ends if end != "killed" for fault in _left(world, end)]
        faults += afterwards(world)
        again = ", and again" if ends[1:] == ["killed"] else ""
        outcome = "goes on to the end" if not faults else "broken"
        tally.explored += 1
        if ends[0] == "killed":
            kind = "SIGKILL" + (" amid a write" if point.amid else "") + again
            tally.fault(kind, named(point.call), f"{point}+{second if again else 0}", outcome)
        for number, what in faults[:3]:
            for one in dict.fromkeys((number, 15)):
                tally.violation(f"{BrokenError(one, what)}\n{point}: {point.call}", replay)


def _left(world: World, end: End) -> Iterator[tuple[int, str]]:
    """A life that was not killed: its calls were fewer this time, or it broke."""
    if end != "ended":
        yield 15, f"the life that was to be killed {end}: {why(world)}"


def _die() -> None:
    signal.raise_signal(signal.SIGKILL)
