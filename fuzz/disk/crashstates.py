"""`python -m fuzz crashstates`: the power goes at every point of a run, and takes all that it may take.

Runs are recorded, file operation by file operation; each state that a cut can leave is laid out as a folder,
and a real start judges it (`start.py`). Only states that differ count. Some live on: a run from there to the
end is recorded in its turn, and the power goes at every point of that one.
"""

import itertools
import math
import random
import time
from collections import Counter
from typing import Final

import msgspec
from attrs import define, field, frozen

from fuzz.commands import Options
from fuzz.disk.bench import Bench
from fuzz.disk.cuts import Cuts, State
from fuzz.disk.demands import OUTPUT, Facts, Seen, Started, broken, copied, look, of_end
from fuzz.disk.lives import a_story, record
from fuzz.disk.places import memory_folder, named
from fuzz.disk.start import start
from fuzz.disk.storage import Disk, Fact, Recorder
from fuzz.garbage import rarely_collected
from fuzz.invariants import BrokenError
from fuzz.jobs import share
from fuzz.quiet import quiet
from fuzz.simulation.story import UNDISTURBED, Life, Moment, Signal, Story, told_by
from fuzz.simulation.world import World
from fuzz.tally import Tally
from triocollect.config.settings import Config

MOST_COMPLAINTS: Final = 3  # of one invariant in one story
ENOUGH: Final = 1000  # complaints, of any kind: the story is not worth more


def explore(options: Options, tally: Tally) -> None:
    """One story after the other. A replay is one of them: all its states once more."""
    share(_stories, options, tally)


@quiet()
def _stories(options: Options, tally: Tally) -> None:
    if options.replay is not None:
        number, _, text = options.replay.partition(":")
        seed = int(number)
        Cutting(seed, tally).everywhere(told_by(text) if text else a_story(seed))
        return
    deadline = time.monotonic() + options.seconds
    with rarely_collected() as collect:
        for seed in itertools.count(options.seed):
            if time.monotonic() > deadline:
                return
            Cutting(seed, tally, deadline=deadline).everywhere(a_story(seed))
            collect()


@frozen
class _Survivor:
    """A state that lives on, and what had been told by then."""

    state: State
    facts: Facts


@define
class Cutting:
    """The states of a story. Each is started on once; what is asked of it grows from point to point.

    `lives_on`: so many states go on to the end. `share` of all states that are judged.
    """

    seed: int
    tally: Tally
    lives_on: int = 2
    share: float = 1.0
    deadline: float = math.inf
    _replay: str = ""
    _after: str = ""  # in words, which state was gone on from
    _seen: dict[bytes, Seen | None] = field(factory=dict)  # None: not among the share
    _complaints: Counter[int] = field(factory=Counter)

    def everywhere(self, story: Story) -> None:
        """Judge every state that a cut of the story leaves, and those of what goes on from some of them."""
        drawn = story == a_story(self.seed)
        self._replay = str(self.seed) if drawn else f"{self.seed}:{story.text}"
        for nth, survivor in enumerate(self._live(story, None)):
            dice = random.Random(f"{self.seed}:{nth}")
            at = Signal(Moment(dice.randint(100, 2500)), dice.choice(["USR1", "TERM"]))
            second = msgspec.structs.replace(story, lives=(Life(signals=(at,)), UNDISTURBED), dice=2)
            self._after = f"\nof {second.text}, which went on from state {survivor.state.digest.hex()}"
            if time.monotonic() < self.deadline:
                self._live(second, survivor)

    def _live(self, story: Story, begin: _Survivor | None) -> list[_Survivor]:
        with memory_folder() as root:
            return self._cut(World(root, story), begin)

    def _cut(self, world: World, begin: _Survivor | None) -> list[_Survivor]:
        bench, facts = Bench(world.folder), Facts()
        if begin is not None:
            facts = copied(begin.facts)
            bench.lay(begin.state.files)
            (world.folder / "effects").mkdir()
            world.boot()
        try:
            recorder = record(world)
        except Exception as fault:  # noqa: BLE001  # whatever it is, a user would see it
            what = f"a run from there does not come to its end: {type(fault).__name__}: {fault}"
            self._complain(15, what, "a whole run")
            return []
        if begin is not None:
            told = [operation for operation, _ in recorder.log if isinstance(operation, Fact)]
            output = recorder.bytes_of(OUTPUT)
            for number, what in of_end(output, told, begin.facts, world.story.rows):
                self._complain(
                    number, what, f"a run that went on after a cut that took {begin.state.lost or 'nothing'}"
                )
        return self._cut_everywhere(recorder, facts, world.config(UNDISTURBED), bench)

    def _cut_everywhere(
        self, recorder: Recorder, facts: Facts, config: Config, bench: Bench
    ) -> list[_Survivor]:
        dice = random.Random(self.seed)
        disk, cuts, survivors = Disk(recorder.base, recorder.everything), Cuts(dice), list[_Survivor]()
        rows = bench.folder.joinpath("in.jsonl").read_bytes().count(b"\n")
        known, asked = 0, dict[bytes, int]()  # facts, now and when a state was asked last
        for point, (operation, told) in enumerate(recorder.log):
            disk.do(operation)
            if isinstance(operation, Fact):
                facts.take(operation)
                known += 1
            for state in cuts.states(disk):
                if state.digest not in self._seen:
                    is_judged = self.share == 1.0 or dice.random() < self.share
                    seen = started_on(bench, state, config) if is_judged else None
                    self._seen[state.digest] = seen
                    if seen is not None:
                        self._count(state, seen, told)
                        if self._may_live_on(seen, dice):
                            survivors = [*survivors, _Survivor(state, copied(facts))][-self.lives_on :]
                if (seen := self._seen[state.digest]) is None or asked.get(state.digest) == known:
                    continue
                asked[state.digest] = known
                for number, what in broken(seen, facts, rows):
                    lost = state.lost or "nothing"
                    self._complain(number, what, f"a cut at point {point}, {told}, that took {lost}")
            if time.monotonic() > self.deadline or self._complaints.total() > ENOUGH:
                break
        return survivors

    def _may_live_on(self, seen: Seen, dice: random.Random) -> bool:
        """Each of all states as likely as any other."""
        return seen.outcome.startswith("goes on") and dice.random() < self.lives_on / len(self._seen)

    def _count(self, state: State, seen: Seen, told: str) -> None:
        self.tally.explored += 1
        kind = f"cut that takes {'names' if 'names' in state.lost else 'bytes' if state.lost else 'nothing'}"
        scenario = f"{state.lost}:{state.digest.hex()}"
        self.tally.fault(kind, named(told), scenario, seen.outcome)

    def _complain(self, number: int, what: str, where: str) -> None:
        """Who does not survive a death breaks what that broke, and 15."""
        self._complaints[number] += 1
        if self._complaints[number] <= MOST_COMPLAINTS:
            words = "; ".join(str(BrokenError(one, what)) for one in dict.fromkeys((number, 15)))
            self.tally.violation(f"{words}\n{where}{self._after}", self.tally.replay(self._replay))


def started_on(bench: Bench, state: State, config: Config) -> Seen:
    """Lay it out, and start."""
    bench.lay(state.files)
    try:
        started: Started | str = start(config)
    except Exception as fault:  # noqa: BLE001  # whatever it is, a user would see it
        started = f"{type(fault).__name__}: {fault}"
    output = bench.folder / OUTPUT
    return look(state.files, started, output.read_bytes() if output.exists() else b"")
