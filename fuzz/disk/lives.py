"""Lives of a simulated run, and who looks on: what was sent, acknowledged and published, and when.

The collector and the servers are the real ones (`fuzz.simulation`), and so are their file calls.
"""

import contextlib
import json
import os
import random
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import trio
import trio.testing

from fuzz.disk.calls import Watcher, watched
from fuzz.disk.results import results_in
from fuzz.disk.storage import ACKNOWLEDGED, Recorder
from fuzz.simulation.living import Living
from fuzz.simulation.oracle import Oracle
from fuzz.simulation.reading import identity_of
from fuzz.simulation.request import PREFIX, Request
from fuzz.simulation.sends import says_that_nothing_ran
from fuzz.simulation.story import UNDISTURBED, Death, Fault, Life, Moment, Signal, Story
from fuzz.simulation.world import World
from triocollect.collector.sinks import ACK_VARIABLE
from triocollect.errors import reason_of
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.report.run_report import Report

NOT_OURS: Final = frozenset({"effects", ACKNOWLEDGED})  # in a story's folder
OUTPUT: Final = "out.jsonl"


class Eyes(Oracle):
    """Tells facts at once, beside what the oracle of simulated runs asks."""

    def __init__(self, folder: Path, story: Story, fact: Callable[[str, str], None]):
        super().__init__(folder, story)
        self._fact = fact

    def arrives(self, request: Request):
        """An attempt is used once it is sent, or installed."""
        super().arrives(request)
        if request.path == "/run":
            rollout_id, attempt = identity_of(json.loads(request.body))
            self._fact("sent", f"{rollout_id}:{attempt}")
        elif request.path == f"{PREFIX}restore":
            for one in json.loads(request.body)["scope"]:
                self._fact("installed", f"{one['rollout_id']}:{one['becomes']}")

    def answers(self, request: Request, *, heard: bool):
        """One of which nothing ran is free again."""
        super().answers(request, heard=heard)
        if heard and request.path == "/run" and says_that_nothing_ran(request):
            rollout_id, attempt = identity_of(request.call)
            self._fact("freed", f"{rollout_id}:{attempt}")

    def checkpoint_ends(self, outcome: CheckpointOutcome, **more):
        super().checkpoint_ends(outcome, **more)
        if outcome.published:
            self._fact("published", outcome.checkpoint_id.split("-")[1])
            if "prune" in outcome.phases_s:
                self._fact("pruned", " ".join(os.listdir(self.checkpoints)))  # noqa: PTH208  # names


def a_story(seed: int) -> Story:
    """Lives that are stopped, asked for checkpoints and killed, and one that nobody disturbs."""
    dice = random.Random(seed)
    lives = []
    for _ in range(dice.randint(1, 3)):
        asked = [
            Signal(Moment(at), "USR1") for at in sorted(dice.sample(range(200, 2500), dice.randint(0, 2)))
        ]
        end = dice.choice(["TERM", "TERM", "death", "syncs", "nothing"])
        if end == "TERM":
            asked.append(Signal(Moment(dice.randint(300, 2500)), "TERM"))
        death = {
            "death": Death(Moment(dice.randint(300, 2500))),
            "syncs": Death(Moment(dice.randint(1, 40), "syncs")),
        }.get(end)
        odd = (Fault("run", dice.randint(1, 3), dice.choice(["fails", "unwritten", "reply lost"])),)
        lives.append(
            Life(
                signals=tuple(asked),
                death=death,
                faults=odd if dice.random() < 0.25 else (),
                every_s=dice.choice([None, None, 0.7]),
                fresh=dice.random() < 0.15,
                limit=dice.choice([None, None, None, None, 2]),
            )
        )
    return Story(
        rows=dice.randint(2, 4),
        concurrency=dice.choice([256, 2, 1]),
        tokens_per_s=dice.choice([2.0, 4.0, 10.0]),
        latency_ms=dice.choice([0, 20, 200]),
        control_ms=dice.choice([0, 5]),
        lives=(*lives, UNDISTURBED),
    )


def record(world: World) -> Recorder:
    """Live a whole story; what its disk was told, and the facts in between."""
    recorder = Recorder(world.folder, without=NOT_OURS)

    def fact(what: str, of: str) -> None:
        recorder.fact(what, of)
        if what == "published":
            for key in also_acknowledged(of, recorder.bytes_of):
                recorder.fact("acknowledged", key)

    live(world, recorder, fact)
    return recorder


def live(
    world: World,
    watcher: Watcher,
    fact: Callable[[str, str], None],
    *,
    forgiven: Collection[int] = (),
    sync: Callable[[int], None] | None = None,
) -> Report | None:
    """Live a whole story while somebody watches its files; what the last life has reported.

    `sync`: what a sync does; nothing, unless told otherwise. Raises what ended it, and BrokenError where an
    invariant was broken in it that is not `forgiven`.
    """
    world.oracle = Eyes(world.folder, world.story, fact)
    world.clock = trio.testing.MockClock(autojump_threshold=0)
    with acknowledging(world.folder), world.simulated(), watched(world.folder, watcher, sync):
        try:
            report = trio.run(_live_all, world, fact, clock=world.clock)
        except BaseExceptionGroup as group:
            raise reason_of(group) from group
    for error in world.oracle.broken:
        if error.number not in forgiven:
            raise error
    return report


async def _live_all(world: World, fact: Callable[[str, str], None]) -> Report | None:
    living = None
    for life in world.story.lives:
        fact("begins", "afresh" if life.fresh else "again")
        living = world.living = Living(world, life)
        world.network.begin(living, life.faults)
        world.oracle.begin(living.servers, life, anew=True)
        async with trio.open_nursery() as own:  # whose tasks have the collector's context
            own.start_soon(living.live)
    return None if living is None else living.report


def also_acknowledged(checkpoint: str, read: Callable[[str], bytes]) -> Iterator[str]:
    """Who publishes has made durable the results that the checkpoint leaves out. `read` a file by name."""
    collection = json.loads(read(f"checkpoints/ckpt-{checkpoint}/collection.json"))
    held = {one["rollout_id"] for one in (*collection["continued"], *collection["restarted"])}
    return (one.capture_key for one in results_in(read(OUTPUT)) if one.rollout_id not in held)


@contextlib.contextmanager
def acknowledging(folder: Path) -> Iterator[None]:
    """A run says there what is durable."""
    descriptor = os.open(folder / ACKNOWLEDGED, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.environ[ACK_VARIABLE] = str(descriptor)
    try:
        yield
    finally:
        del os.environ[ACK_VARIABLE]
        os.close(descriptor)
