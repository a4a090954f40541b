"""Live a story in one process and in simulated time, and ask the oracle all along.

A death is a photograph: what is on disk at that instant is what the next life finds, and nothing that happens
afterwards in the dead one counts.
"""

import contextlib
import json
import os
import random
import shutil
import signal
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio
import trio.testing

from fuzz.simulation.network import Network, Request, Watch
from fuzz.simulation.oracle import Oracle
from fuzz.simulation.servers import CAPTURED, UNCAPTURED, Servers, inline
from fuzz.simulation.story import UNDISTURBED, Life, Moment, Story
from triocollect.checkpoint.signals import hear
from triocollect.collector.run import run
from triocollect.collector.setup import Setup
from triocollect.config.settings import CheckpointConfig, Config, DispatchConfig, InputConfig, OutputConfig
from triocollect.deployment.plan import agent_of
from triocollect.errors import StoppedError, TriocollectError, reason_of
from triocollect.transport import Client

GRACE_S = 30.0
CHECKPOINT_S = 20.0
SLACK_S = 20.0  # to the end of a run whose grace is over
LONGEST_S = 6 * 3600.0  # a life that lasts longer hangs
NUMBERS = {"USR1": signal.SIGUSR1, "TERM": signal.SIGTERM, "INT": signal.SIGINT}


class World:
    """What outlives a life: the disk, and the oracle's memory."""

    def __init__(self, root: Path, story: Story):
        self.root, self.story = root, story
        self.folder = root / "folder"
        (self.folder / "effects").mkdir(parents=True)
        write_rows(self.folder / "in.jsonl", story)
        self.oracle = Oracle(self.folder, story.rows, mixed=story.mixed)

    def photograph(self):
        shutil.copytree(self.folder, self.root / "photograph")

    def develop(self):
        """The disk is as it was on the photograph."""
        shutil.rmtree(self.folder)
        (self.root / "photograph").rename(self.folder)

    def harm(self, life: Life):
        """Zeros, as a power cut leaves them."""
        checkpoints = self.folder / "checkpoints"
        named = {
            "LATEST": lambda: checkpoints / "LATEST",
            "newest": lambda: max(checkpoints.glob("ckpt-*/collection.json"), default=checkpoints / "none"),
            "lock": lambda: checkpoints / "collector.lock",
        }
        if life.harm is not None and (path := named[life.harm]()).exists():
            path.write_bytes(bytes(path.stat().st_size))
            self.oracle.harmed()

    def config(self, life: Life) -> Config:
        return Config(
            input=InputConfig(path=self.folder / "in.jsonl", limit=life.limit),
            output=OutputConfig(
                path=self.folder / "out.jsonl",
                resume="never" if life.fresh else "auto",
                overwrite=life.fresh,
                accept_drift=frozenset({"limit"}),
            ),
            dispatch=DispatchConfig(
                concurrency=life.concurrency or self.story.concurrency, row_timeout_s=900.0
            ),
            checkpoint=CheckpointConfig(
                dir=self.folder / "checkpoints",
                every_s=life.every_s,
                timeout_s=CHECKPOINT_S,
                grace_s=GRACE_S,
            ),
        )


def write_rows(path: Path, story: Story) -> None:
    tools = [{"type": "function", "name": name} for name in ("increment", "decrement", "get_value")]
    with path.open("w") as file:
        for number in range(story.rows):
            source = UNCAPTURED if story.mixed and number % 2 else CAPTURED
            row = {
                "responses_create_params": {
                    "input": f"Add {number + 1}, then 40, then report the value.",
                    "tools": tools,
                },
                "expected_change": number + 41,
                "agent_ref": {"name": agent_of(source)},
            }
            file.write(json.dumps(row) + "\n")


class Living:
    """One life."""

    def __init__(self, world: World, life: Life):
        self.world, self.life, self.oracle = world, life, world.oracle
        self.dead = False
        self.passed: Counter[str] = Counter()
        self.coming: dict[Moment, list[Callable[[], None]]] = defaultdict(list)
        self.inbox = None
        self.kept: set[int] = set()  # signals that came before anybody listened, each kind once
        self.told_at: float | None = None
        self.whole = trio.CancelScope()
        story = world.story
        watch = Watch(self._unless_dead(self.oracle.arrives), self._answered)
        self.network = Network(watch, story.latency_ms / 1000, story.control_ms / 1000, life.faults)
        self.servers = Servers(self.network, world.folder / "effects", story)

    def _unless_dead(self, tell):
        return lambda what: None if self.dead else tell(what)

    def synced(self, _descriptor):
        """In place of os.fsync."""
        self._pass("syncs")

    def _answered(self, request: Request):
        if not self.dead:
            self.oracle.answers(request)
        if request.door in {"peer", "control"}:
            self._pass("answers" if request.door == "peer" else "controls")

    def _pass(self, what: str):
        self.passed[what] += 1
        for act in self.coming.pop(Moment(self.passed[what], what), ()):
            act()

    def die(self):
        if not self.dead:
            self.world.photograph()
            self.dead = self.network.down = True
            self.whole.cancel()

    async def live(self):
        """To its end, whatever that is."""
        transport = Client(connect=self.network.connect)
        setup = Setup(
            config=self.world.config(self.life),
            transport=transport,
            listener=self._unless_dead(self.oracle.listen),
            blocking=inline,
            orders=self._meet,
            deployment=self.servers.bring_up,
            connect=self.network.connect,
        )
        report = fault = None
        try:
            with self.whole, trio.fail_after(LONGEST_S):
                async with trio.open_nursery() as happening:
                    self._start(happening)
                    report = await run(setup)
                    ended = trio.current_time()
                    happening.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            fault = reason_of(group)
        except TriocollectError as error:
            fault = error
        finally:
            with trio.CancelScope(shield=True):
                await transport.aclose()
        if self.dead:
            self.world.develop()
        elif fault is not None:
            stopped = isinstance(fault, StoppedError) and self.told_at is not None
            if not (stopped or (isinstance(fault, TriocollectError) and self.life.is_disturbed)):
                raise fault
            self.oracle.notes.append(str(fault))
        elif self.told_at is not None:
            assert ended - self.told_at <= GRACE_S + SLACK_S, "the run outlasted its grace"
        self.oracle.end(report)
        return report

    def _meet(self, inbox):
        self.inbox = inbox
        for number in sorted(self.kept):
            hear(inbox, number)

    def _start(self, happening):
        for one in self.life.signals:
            self._plan(happening, one.when, partial(self._hear, one))
        for fall in self.life.falls:
            self._plan(happening, fall.when, partial(self.servers.restart, fall.server))
        if self.life.death is not None:
            self._plan(happening, self.life.death, self.die)

    def _plan(self, happening, when: Moment, act):
        if when.of == "ms":
            happening.start_soon(self._after, when.at / 1000, act)
        else:
            self.coming[when].append(act)

    async def _after(self, seconds, act):
        await trio.sleep(seconds)
        act()

    def _hear(self, one):
        number = NUMBERS[one.what]
        if one.what != "USR1" and self.told_at is None:
            self.told_at = trio.current_time()
        if self.inbox is not None:
            hear(self.inbox, number)
        elif one.what != "USR1":  # which is ignored that early
            self.kept.add(number)


@contextlib.contextmanager
def simulated(living: Living):
    """Nothing of a life depends on this machine: its disk's syncs are ours, and so are the dice."""
    dice = random.Random(living.oracle.life_number)  # no id is drawn in two lives
    before = os.fsync, os.urandom
    os.fsync, os.urandom = living.synced, dice.randbytes
    try:
        yield
    finally:
        os.fsync, os.urandom = before


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # only how many


def live(root: Path, story: Story) -> Oracle:
    """Live it and return the oracle, which has no more questions. Raises AssertionError."""
    world, open_before = World(root, story), open_files()
    for life in (*story.lives, UNDISTURBED):
        clock = trio.testing.MockClock(autojump_threshold=0)
        world.harm(life)
        living = Living(world, life)
        world.oracle.begin(living.servers, life)
        with simulated(living):
            report = trio.run(living.live, clock=clock, instruments=[world.oracle.instrument])
    world.oracle.finish(report)
    assert open_files() == open_before, "something is left open"
    return world.oracle
