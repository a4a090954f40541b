"""Servers that are started each by itself, at addresses that stay theirs over any number of deaths."""

import random
import socket
from pathlib import Path
from typing import Final

import httpx
import msgspec
import trio
from attrs import define, field

from fuzz.invariants import holds
from fuzz.live.orders import Birth
from fuzz.live.processes import LOOK_S, Process, Zygote, end, gone, session_of, until
from fuzz.live.story import ALWAYS_ONE, MIXES, Story

PORTS: Final = range(12_000, 32_000)  # below those that the kernel picks for others
TOKEN: Final = "a word that nobody guesses"
WHAT: Final = {"policy_model": "model"}  # what `serve` calls it
ORPHANS_S: Final = 20.0  # in which all that a process has started ends with it


def variables(folder: Path, story: Story) -> dict[str, str]:
    """What every process of a story is told."""
    return {
        "TRIOCOLLECT_EFFECTS_DIR": str(folder / "accounts"),
        "TRIOCOLLECT_TOKENS_PER_S": str(story.tokens_per_s),
        "TRIOCOLLECT_CONTROL_TOKEN": TOKEN,
        "TMPDIR": str(folder),
        "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS": "1000",
    }


class _Status(msgspec.Struct, frozen=True):
    phase: str


@define
class Servers:
    """Those of one story. `nursery`: of whoever reads what they say."""

    zygote: Zygote
    folder: Path
    story: Story
    nursery: trio.Nursery
    standing: dict[str, Process] = field(factory=dict)
    leaving: set[str] = field(factory=set)  # those that were told to end
    workers: int = 1  # of each that is started from now on
    _ports: dict[str, int] = field(factory=dict)

    @property
    def head(self) -> str:
        """Where collectors ask."""
        return self._url("environment")

    async def start(self, workers: int = 1) -> None:
        """Every server that is not there, or was told to end, with so many workers."""
        self.workers = workers
        for name in self.leaving:
            end(self.standing[name].pid)
            await self.standing[name].ended.wait()
        self.leaving.clear()
        async with trio.open_nursery() as nursery:
            for name in self._names:
                if name not in self.standing or self.standing[name].code is not None:
                    nursery.start_soon(self.revive, name)

    async def revive(self, name: str) -> None:
        """Start this one, when nobody is left of the one before; it and its workers are there afterwards."""
        if name in self.standing:
            left = await gone(self.standing[name].pid, ORPHANS_S)
            holds(14, not left, f"workers outlived their coordinator: {left}")
        peers = [word for peer in self._peers(name) for word in ("--peer", f"{peer}={self._url(peer)}")]
        words = ("serve", WHAT.get(name, name), "--port", str(self._port(name)), *peers)
        part = ["--checkpoint-dir", str(self.folder / "ckpt")]
        workers = 1 if name == ALWAYS_ONE else self.workers
        if workers > 1:
            part += ["--workers", str(workers)]
        birth = Birth(("-m", "triocollect", *words, *part), variables(self.folder, self.story))
        with trio.CancelScope(shield=True):  # whoever is born has to be known
            self.standing[name] = process = await self.zygote.bear(birth)
        listens = trio.Event()
        self.nursery.start_soon(self._hear, process, listens)
        await listens.wait()
        if workers > 1:
            named = {f"{name} {number}" for number in range(1, workers + 1)}
            await until(lambda: process.code is not None or named <= {*session_of(process.pid).values()})

    async def closed(self) -> None:
        """Wait until a checkpoint has closed the agent."""
        while await self.phase("agent") == "open":  # noqa: ASYNC110  # it is another process that is asked
            await trio.sleep(LOOK_S)

    async def opened(self, within_s: float) -> list[str]:
        """Wait until all have opened by themselves; those that have not."""
        closed = [name for name in self._names if name != "inference"]
        with trio.move_on_after(within_s):
            for name in list(closed):
                while await self.phase(name) != "open":  # noqa: ASYNC110  # it is another process that is asked
                    await trio.sleep(LOOK_S)
                closed.remove(name)
        return closed

    async def phase(self, name: str) -> str:
        """Where it stands, in its own words; open where it does not answer."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(timeout=None) as client:
            try:
                reply = await client.get(f"{self._url(name)}/checkpoint/v1/status", headers=headers)
            except httpx.HTTPError:
                return "open"
        return msgspec.json.decode(reply.content, type=_Status).phase

    def kill(self) -> None:
        """All of them, at once."""
        for process in self.standing.values():
            end(process.pid)

    async def end(self) -> None:
        """The same, and wait for their ends."""
        self.kill()
        for process in self.standing.values():
            await process.ended.wait()

    async def _hear(self, process: Process, listens: trio.Event) -> None:
        async with process.words, process.acknowledged:
            async for _words in process.words:
                listens.set()
            listens.set()

    @property
    def _names(self) -> tuple[str, ...]:
        return (*MIXES[self.story.mix], "inference", "policy_model", "agent", "environment")

    def _peers(self, name: str) -> tuple[str, ...]:
        sources = tuple(MIXES[self.story.mix])
        return {
            "policy_model": ("inference",),
            "agent": ("policy_model", *sources),
            "environment": ("agent", "policy_model", *sources),
        }.get(name, ())

    def _url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._port(name)}"

    def _port(self, name: str) -> int:
        """One that nobody had when it was first asked for."""
        while name not in self._ports:
            port = random.choice(PORTS)
            with socket.socket() as sock:
                try:
                    sock.bind(("127.0.0.1", port))
                except OSError:
                    continue
            self._ports[name] = port
        return self._ports[name]
