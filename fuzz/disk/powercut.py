"""`python -m fuzz powercut`: the power of a real disk goes at any call of a run, again and again.

An XFS and an ext4, each in a file, are shut down by the kernel without another write, mounted again, and gone
on with; collector and servers are simulated, their calls and syncs are real. Needs root, and says so.
"""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from attrs import frozen

from fuzz.commands import Options
from fuzz.disk.afterwards import afterwards
from fuzz.disk.calls import Call
from fuzz.disk.children import facts_of, lived, sum_of, why
from fuzz.disk.demands import Facts, keys_in, of_files
from fuzz.disk.mounted import Disk, cut_power, lacks, take_down_strays
from fuzz.disk.places import counts, named
from fuzz.disk.results import files_in, named_in
from fuzz.disk.storage import ACKNOWLEDGED
from fuzz.invariants import BrokenError
from fuzz.jobs import share
from fuzz.quiet import quiet
from fuzz.scratch import PREFIX
from fuzz.simulation.story import Life, Moment, Signal, Story
from fuzz.simulation.world import World
from fuzz.tally import Tally

KINDS: Final = ("xfs", "ext4")
STRUCK: Final = "struck"  # a file that holds the call at which the power went
LONGEST: Final = 300  # calls of a life before which the power goes
ROWS: Final = 12
RATES: Final = (1.0, 10.0, 30.0)  # tokens a second: hardly a row ends before the power goes, or some do
NEEDS: Final = "powercut needs root, loop devices, mkfs.xfs and mkfs.ext4"


class PowerCut:
    """The power goes right before the nth call, and everybody dies of it."""

    def __init__(self, place: Path, nth: int, told: Path) -> None:
        self._place, self._left, self._told = place, nth, told

    def before(self, call: Call) -> int | None:
        if counts(call):
            self._left -= 1
            if self._left == 0:
                self._told.write_text(str(call))
                cut_power(self._place)
                signal.raise_signal(signal.SIGKILL)
        return None

    def after(self, call: Call) -> None:
        pass


def explore(options: Options, tally: Tally) -> None:
    """Run after run on one kind of disk and the other."""
    share(_runs, options, tally)


@quiet()
def _runs(options: Options, tally: Tally) -> None:
    take_down_strays()
    if (why := next(filter(None, map(lacks, KINDS)), None)) is not None:
        raise SystemExit(f"{NEEDS}: {why}")
    deadline = time.monotonic() + options.seconds
    if options.replay is not None:
        kind, _, seed = options.replay.partition(":")
        Run(kind, int(seed)).live(tally)
        return
    seed = options.seed
    while time.monotonic() < deadline:
        for kind in KINDS:
            Run(kind, seed).live(tally)
        seed += 1


@frozen
class Run:
    """One run on one disk, of which the power is cut so often. `sync`: what a sync does."""

    kind: Literal["xfs", "ext4"]
    seed: int
    cuts: int = 4
    sync: Callable[[int], None] = os.fsync

    def live(self, tally: Tally) -> None:
        """Lives on it, one after another, and one without a cut."""
        root = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            disk = Disk(root, self.kind)
            try:
                self._live(disk, root, tally)
            finally:
                disk.take_down()
        finally:
            shutil.rmtree(root)

    def _live(self, disk: Disk, root: Path, tally: Tally) -> None:
        dice, world = random.Random(self.seed), _world_on(disk, root)
        for nth in range(self.cuts):
            at = dice.randint(1, LONGEST)
            signals = tuple(Signal(Moment(dice.randint(100, 2500)), "USR1") for _ in range(3))
            world.story = _story(dice.choice(RATES), Life(signals=signals), dice=1 + nth)
            end = lived(world, PowerCut(disk.place, at, root / STRUCK), sync=self.sync)
            faults = [] if end in {"ended", "killed"} else [(15, f"the run {end}: {why(world)}")]
            if end == "killed":
                disk.switch_off()
                disk.switch_on()
                world.boot()
                facts, files = sum_of(facts_of(world)), files_in(world.folder)
                faults = list(of_files(keys_in(files), named_in(files), facts))
                outcome = "broken" if faults else _kept(facts)
                place = named((root / STRUCK).read_text())
                tally.fault(f"power cut on {self.kind}", place, f"{world.story.text}:{at}", outcome)
            tally.explored += 1
            self._complain(faults, tally, f"cut {nth} at call {at}")
        self._complain(afterwards(world), tally, f"after {self.cuts} cuts")

    def _complain(self, faults: list[tuple[int, str]], tally: Tally, where: str) -> None:
        for number, what in faults[:3]:
            for one in dict.fromkeys((number, 15)):
                replay = f"python -m fuzz powercut --replay {self.kind}:{self.seed}"
                tally.violation(f"{BrokenError(one, what)}\n{self.kind}, {where}", replay)


def _kept(facts: Facts) -> str:
    """What had been promised before the power went, and is there."""
    kept = ["rows"] * bool(facts.acknowledged) + ["a checkpoint"] * bool(facts.published)
    return " and ".join(kept) or "nothing promised"


def _story(tokens_per_s: float, *lives: Life, dice: int = 1) -> Story:
    return Story(ROWS, 3, tokens_per_s, 20, 5, lives, dice=dice)


def _world_on(disk: Disk, root: Path) -> World:
    """Its folder is the disk; the accounts of others are elsewhere."""
    (root / "world").mkdir()
    (root / "world" / "folder").symlink_to(disk.place)
    world = World(root / "world", _story(RATES[0]))
    world.folder = disk.place
    shutil.rmtree(disk.place / "effects")
    (root / "effects").mkdir()
    (disk.place / "effects").symlink_to(root / "effects")
    (disk.place / ACKNOWLEDGED).symlink_to(root / ACKNOWLEDGED)
    os.sync()
    return world
