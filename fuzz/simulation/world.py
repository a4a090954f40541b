"""What outlives a life: the disk, servers that stand, and the oracle's memory."""

import contextlib
import json
import os
import random
from pathlib import Path

import trio

from fuzz.simulation.clocks import REPLACED
from fuzz.simulation.disk import Disk
from fuzz.simulation.files import changing
from fuzz.simulation.network import Network
from fuzz.simulation.oracle import Oracle
from fuzz.simulation.servers import CAPTURED, UNCAPTURED, Servers
from fuzz.simulation.story import CHECKPOINT_S, Life, Story, steps_of
from triocollect import locking
from triocollect.checkpoint import kept_by_kernel
from triocollect.config.settings import (
    CheckpointConfig,
    Config,
    DispatchConfig,
    InputConfig,
    OutputConfig,
    ServersConfig,
)
from triocollect.deployment.plan import agent_of

GRACE_S = 30.0
ROW_S = 60.0
HEAD = "http://environment:80"


class World:
    """All of one story."""

    def __init__(self, root: Path, story: Story):
        self.root, self.story = root, story
        self.folder = root / "folder"
        self.checkpoints = self.folder / "checkpoints"
        (self.folder / "effects").mkdir(parents=True)
        write_rows(self.folder / "in.jsonl", story)
        (root / "token").write_text("a token of servers that stand")
        (root / "token").chmod(0o600)
        self.dice = random.Random(story.dice)
        self.oracle = Oracle(self.folder, story)
        self.disk = Disk(self.folder, frozenset({"effects", "in.jsonl"}))
        if story.is_without_power:
            self.disk.settle()
        ways = (story.latency_ms / 1000, story.control_ms / 1000, story.link_ms / 1000)
        self.network = Network(self.oracle, *ways, self.dice)
        self.living = None
        self.standing: Servers | None = None
        self._boots = 0
        self.boot()

    def servers(self, life: Life) -> Servers:
        """Those of another life."""
        effects, workers = self.folder / "effects", life.workers_in(self.story)
        return Servers(self.network, self.checkpoints, effects, self.story, workers)

    async def stand(self, machine: trio.Nursery, life: Life) -> bool:
        """Have servers that outlive collectors, if the story is such; whether those of a life are new."""
        if self.standing is not None:
            return False
        if self.story.standing:
            self.standing = self.servers(life)
            await self.standing.bring_up(None, None, machine, (self.root / "token").read_text())
        return True

    def boot(self) -> None:
        """The kernel has another name now."""
        self._boots += 1
        (self.root / "boot").write_text(f"boot {self._boots}")

    def lose_power(self) -> None:
        """The machine is off and on again."""
        self.oracle.loses_power()
        self.disk.lose_power(self.dice)
        self.boot()

    def harm(self, life: Life) -> bool:
        """Leave zeros, as some power cuts do; whether there was anything to harm."""
        named = {
            "LATEST": lambda: self.checkpoints / "LATEST",
            "newest": lambda: max(
                self.checkpoints.glob("ckpt-*/collection.json"), default=self.root / "none"
            ),
            "lock": lambda: self.checkpoints / "collector.lock",
        }
        if life.harm is None or not (path := named[life.harm]()).exists():
            return False
        path.write_bytes(bytes(path.stat().st_size))
        if self.story.is_without_power:
            self.disk.settle()
        self.oracle.kept.harmed()
        return True

    def config(self, life: Life) -> Config:
        """What the command of a life is told."""
        return Config(
            input=InputConfig(path=self.folder / "in.jsonl", limit=life.limit),
            output=OutputConfig(
                path=self.folder / "out.jsonl",
                resume="never" if life.fresh else "auto",
                overwrite=life.fresh,
                accept_drift=frozenset({"limit"}),
            ),
            servers=ServersConfig(head_server=HEAD if self.story.standing else None),
            dispatch=DispatchConfig(
                concurrency=life.concurrency or self.story.concurrency,
                row_timeout_s=ROW_S if any(one.how == "hangs" for one in life.faults) else None,
            ),
            checkpoint=CheckpointConfig(
                dir=self.checkpoints,
                every_s=life.every_s,
                timeout_s=CHECKPOINT_S,
                grace_s=GRACE_S,
                control_token_file=self.root / "token" if self.story.standing else None,
            ),
        )

    def changes(self, owner, operation, what):
        """See `files.Troubled`."""
        self.living.changes(owner, operation, what)

    @contextlib.contextmanager
    def simulated(self):
        """Nothing depends on this machine: its disk's syncs, its boots, its clocks and all dice are ours.

        Its table of locks names this very process for every collector, and so tells nothing.
        """
        ours = random.Random(self.story.dice).randbytes
        scheduler = trio._core._run  # noqa: SLF001  # trio has no other door to the order of its tasks
        scheduler._r.seed(self.story.dice)  # noqa: SLF001
        replaced = [
            (os, "urandom", ours),
            (random, "_urandom", ours),
            (kept_by_kernel, "_BOOT_ID", self.root / "boot"),
            (locking, "_LOCKS", self.root / "no table"),
            (scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
            *REPLACED,
        ]
        before = [(where, name, getattr(where, name)) for where, name, _ in replaced]
        try:
            for where, name, value in replaced:
                setattr(where, name, value)
            with changing(self, self.disk.synced if self.story.is_without_power else _nothing):
                yield
        finally:
            for where, name, value in before:
                setattr(where, name, value)


def _nothing(_descriptor: int) -> None:
    """What a sync comes to where the power stays on."""


def write_rows(path: Path, story: Story) -> None:
    """Rows whose rollouts take so many changes each."""
    tools = [{"type": "function", "name": name} for name in ("increment", "decrement", "get_value")]
    with path.open("w") as file:
        for number in range(story.rows):
            source = UNCAPTURED if story.mixed and number % 2 else CAPTURED
            steps = steps_of(number, story.changes)
            task = f"Add {', then '.join(map(str, steps))}, then report the value."
            row = {
                "responses_create_params": {"input": task, "tools": tools},
                "expected_change": sum(steps),
                "agent_ref": {"name": agent_of(source)},
            }
            file.write(json.dumps(row) + "\n")
