"""Runs at a moment to be struck: what was lived before is lived once, and copied for each blow."""

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from attrs import frozen

from fuzz.disk.calls import Call
from fuzz.disk.children import LEDGER, lived, why
from fuzz.disk.lives import NOT_OURS
from fuzz.scratch import scratch
from fuzz.simulation.story import UNDISTURBED, Death, Life, Moment, Signal, Story
from fuzz.simulation.world import World

ROWS: Final = 2
_NUMBERS: Final = re.compile(r"[0-9a-f]{64}|[0-9]{6}")  # what differs from run to run in a call
_ASKED: Final = tuple(Signal(Moment(at), "USR1") for at in (300, 900, 1500))
_AFTER_A_ROW: Final = tuple(Signal(Moment(at), "USR1") for at in (2250, 2600))  # it is not on disk yet
_STOPPED: Final = Life(signals=(*_ASKED, Signal(Moment(2100), "TERM")))


@frozen
class Scenario:
    """A life that something happens to, and those before it. `rate`: tokens a second."""

    name: str
    before: tuple[Life, ...]
    life: Life
    rate: float = 1.0
    concurrency: int = 256

    def story(self, *lives: Life, dice: int = 1) -> Story:
        """These lives of the scenario's rows. With the same dice they draw the same ids."""
        return Story(ROWS, self.concurrency, self.rate, 20, 5, lives, dice=dice)


SCENARIOS: Final = (
    Scenario("a run with checkpoints and a stop", (), _STOPPED),
    Scenario("a run to its end", (), Life(signals=(_ASKED[0], *_AFTER_A_ROW)), rate=4.0, concurrency=1),
    Scenario("a resume", (_STOPPED,), UNDISTURBED),
    Scenario(
        "a resume of a killed run", (_STOPPED, Life(death=Death(Moment(700)))), Life(signals=_ASKED[:2])
    ),
    Scenario("a fresh run over another", (_STOPPED,), Life(signals=_ASKED[:1], fresh=True)),
)


class Watching:
    """Writes the calls of a child to a file, those that only read too where that is asked for."""

    def __init__(self, log: Path | None = None, *, reading: bool = False) -> None:
        self._log, self._reading = log, reading

    def before(self, call: Call) -> int | None:
        is_read = call.name == "look" and self._reading and is_ours(call)
        if self._log is not None and (counts(call) or is_read):
            with self._log.open("a") as file:
                file.write(f"{call}\n")
        return None

    def after(self, call: Call) -> None:
        pass


def counts(call: Call) -> bool:
    """Whether it changes a file or folder of a run."""
    return call.name != "look" and is_ours(call)


def is_ours(call: Call) -> bool:
    """Whether it is of a file or folder of a run."""
    return call.path.partition("/")[0] not in NOT_OURS


def named(call: str) -> str:
    """A call in words that are the same in every run."""
    return _NUMBERS.sub("*", call)


@contextlib.contextmanager
def bases(scenarios: Sequence[Scenario] = SCENARIOS) -> Iterator[dict[str, Path]]:
    """Folders as the lives before each of these scenarios left them."""
    with memory_folder() as root:
        made = {}
        for number, scenario in enumerate(scenarios):
            world = World(root / str(number), scenario.story(*scenario.before))
            if scenario.before:
                assert lived(world, Watching()) == "ended", why(world)
            made[scenario.name] = world.root
        yield made


@contextlib.contextmanager
def scene(scenario: Scenario, base: Path) -> Iterator[World]:
    """A world of one's own in which the scenario's life is the next; only attempts are remembered."""
    with memory_folder() as root:
        world = World(root / "world", scenario.story(scenario.life, dice=2))
        shutil.rmtree(world.folder)
        shutil.copytree(base / "folder", world.folder)
        if scenario.life.fresh:
            (world.folder / "acknowledged").unlink(missing_ok=True)
        if (base / LEDGER).exists():
            shutil.copy(base / LEDGER, world.root / LEDGER)
        yield world


def next_life(world: World) -> None:
    """From now on it is a life that nobody disturbs, with other dice."""
    world.story = msgspec.structs.replace(world.story, lives=(UNDISTURBED,), dice=world.story.dice + 1)


def calls_of(scenario: Scenario, base: Path, *, reading: bool = False) -> list[str]:
    """Every call of an undisturbed life of the scenario that changes something, or reads."""
    with scene(scenario, base) as world:
        log = world.root / "calls"
        assert lived(world, Watching(log, reading=reading)) == "ended", why(world)
        return log.read_text().splitlines()


@contextlib.contextmanager
def memory_folder() -> Iterator[Path]:
    """One for a while, in memory where there is a file system for that."""
    root = scratch()
    try:
        yield root
    finally:
        shutil.rmtree(root)
