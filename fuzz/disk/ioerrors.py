"""`python -m fuzz ioerrors`: the disk fails at any call, once or from then on, or takes half of a write.

Of the same runs as `killpoints` and of their reading too. A run then ends with a message, or goes on; LATEST
is the old or the new one; what was acknowledged is there, and nothing is whose sync has failed once: the
kernel may have dropped it, whatever a later sync says. The next run, on a disk that is well, ends well.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from fuzz.commands import Options
from fuzz.disk.afterwards import afterwards
from fuzz.disk.calls import Call
from fuzz.disk.children import End, facts_of, lived, note, why
from fuzz.disk.demands import OUTPUT, SIDECAR
from fuzz.disk.one_by_one import one_by_one
from fuzz.disk.places import SCENARIOS, Scenario, calls_of, is_ours, named, scene
from fuzz.disk.results import results_in
from fuzz.invariants import BrokenError
from fuzz.jobs import share
from fuzz.simulation.world import World
from fuzz.tally import Tally

ERRORS: Final = {  # and the calls that may fail so
    "EIO": {"open", "look", "write", "truncate", "fsync", "close", "rename", "unlink", "mkdir", "rmdir"},
    "ENOSPC": {"open", "write", "fsync", "rename", "mkdir"},
    "EDQUOT": {"open", "write", "fsync", "close", "rename", "mkdir"},
    "EROFS": {"open", "rename", "unlink", "mkdir", "rmdir"},
}
HALF: Final = "half a write"
STRUCK: Final = "struck"  # a fact: the disk has failed
_REMOVES_NOTHING: Final = {"write", "truncate", "mkdir"}
_CHANGES_NOTHING: Final = {"look", "close"}


@frozen
class Blow:
    """What happens at the `nth` call of a scenario, in words. `stays`: and at all calls from then on."""

    scenario: Scenario
    nth: int
    call: str
    what: str
    stays: bool

    @property
    def forgiven(self) -> set[int]:
        """Invariants. Who cannot remove leaves something; folders are opened and synced for that, too."""
        return set() if self.call.partition(" ")[0] in _REMOVES_NOTHING and not self.stays else {4}

    def __str__(self) -> str:
        return f"{self.scenario.name}:{self.nth}:{self.what}{':stays' if self.stays else ''}"


class Failing:
    """A disk that fails."""

    def __init__(self, world: World, blow: Blow) -> None:
        self._world, self._blow, self._count, self._has_struck = world, blow, 0, False

    def before(self, call: Call) -> int | None:
        if not is_ours(call):
            return None
        self._count += 1
        blow = self._blow
        if self._count == blow.nth or (
            blow.stays and self._count > blow.nth and call.name in _may(blow.what)
        ):
            if blow.what == HALF and call.name != "write":
                return None
            if not self._has_struck:
                self._has_struck = True
                note(self._world, STRUCK, str(call))
            if blow.what == HALF:
                return max(1, len(call.data) // 2)
            self._doubt(call)
            number = getattr(errno, blow.what)
            raise OSError(number, os.strerror(number))
        return None

    def after(self, call: Call) -> None:
        pass

    def _doubt(self, call: Call) -> None:
        """What was not on disk before a sync that fails need never be."""
        if call.name == "fsync" and call.path in {OUTPUT, SIDECAR}:
            acknowledged = {fact.of for fact in facts_of(self._world) if fact.what == "acknowledged"}
            for result in results_in((self._world.folder / call.path).read_bytes()):
                if result.capture_key not in acknowledged:
                    note(self._world, "doubtful", result.capture_key)


def _may(what: str) -> set[str]:
    """Which calls fail on a disk that is in this state; it can still be read, and closed."""
    return {"write"} if what == HALF else ERRORS[what] - _CHANGES_NOTHING


def explore(options: Options, tally: Tally) -> None:
    """One blow after the other."""
    share(_blows, options, tally)


def _blows(options: Options, tally: Tally) -> None:
    for blow, base in one_by_one(options, all_blows, named=options.replay):
        strike(blow, base, tally)


def all_blows(made: dict[str, Path]) -> Iterator[Blow]:
    """Every one of the scenarios that there are bases of."""
    for scenario in (one for one in SCENARIOS if one.name in made):
        for nth, call in enumerate(calls_of(scenario, made[scenario.name], reading=True), 1):
            name = call.partition(" ")[0]
            for what, calls in (*ERRORS.items(), (HALF, {"write"})):
                if name in calls:
                    yield Blow(scenario, nth, call, what, stays=False)
                    if name not in _CHANGES_NOTHING:
                        yield Blow(scenario, nth, call, what, stays=True)


def strike(blow: Blow, base: Path, tally: Tally) -> None:
    """Live through it, and go on to the end on a disk that is well."""
    with scene(blow.scenario, base) as world:
        end = lived(world, Failing(world, blow), forgiven=blow.forgiven)
        facts = facts_of(world)
        faults = list(_at_once(world, end))
        faults += afterwards(world)
        told = [fact.of for fact in facts if fact.what == "told"]
        outcome = "broken" if faults else "ends with a message" if told else "goes on"
        tally.explored += 1
        if any(fact.what == STRUCK for fact in facts):  # its calls may be fewer this time
            kind = blow.what + (", which stays" if blow.stays else "")
            tally.fault(kind, named(blow.call), str(blow), outcome)
        for number, what in faults[:3]:
            for one in dict.fromkeys((number, 15)):
                replay = tally.replay(str(blow))
                tally.violation(f"{BrokenError(one, what)}\n{blow}: {blow.call}", replay)


def _at_once(world: World, end: End) -> Iterator[tuple[int, str]]:
    """What is broken in the life that it happened to."""
    if end != "ended":
        yield 15, f"the run {end}: {why(world)}"
    facts = facts_of(world)
    for fact in facts:
        if fact.what == "told" and not fact.of.partition(" ")[2]:
            yield 15, "the run ended without a word"
    doubtful = {fact.of for fact in facts if fact.what == "doubtful"}
    if believed := doubtful & {fact.of for fact in facts if fact.what == "acknowledged"}:
        yield 1, f"a sync of {sorted(believed)} had failed, and they were acknowledged later"
