"""What can be seen of a run while it lives: its words, its files, and how long phases take here and now."""

from pathlib import Path

import msgspec
import trio
from attrs import define, field

from fuzz.live.processes import Process, until
from fuzz.live.story import Strike


@define
class Pace:
    """How long phases took when they were last seen, in seconds."""

    start: float = 0.8
    checkpoint: float = 0.15


class _Event(msgspec.Struct, frozen=True):
    type: str


@define
class Watch:
    """One life, as it is seen from outside."""

    folder: Path
    process: Process
    pace: Pace
    words: bytearray = field(factory=bytearray)
    acknowledged: list[str] = field(factory=list)
    blows: list[str] = field(factory=list)  # what a process said of a signal that it was about to get
    lines: int = 0
    checkpoints: int = 0
    phase: str = "start"
    _born: float = field(factory=trio.current_time)
    _since: float = 0.0

    async def read(self) -> None:
        """All that the process says, until it is gone, and those that had its pipes."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear)
            nursery.start_soon(self._count)

    async def _hear(self) -> None:
        async for line in _lines(self.process.words):
            self.words += line + b"\n"
            if line.startswith(b"{"):
                self.lines += 1
                self._hears(msgspec.json.decode(line, type=_Event).type)

    def _hears(self, event: str) -> None:
        now = trio.current_time()
        match event:
            case "row_sent" if self.phase == "start":
                self.phase, self.pace.start = "rows", now - self._born
            case "checkpoint_started":
                self.phase, self._since = "checkpoint", now
                self.checkpoints += 1
            case "checkpoint_ended":
                self.phase, self.pace.checkpoint = "rows", now - self._since

    async def _count(self) -> None:
        async for line in _lines(self.process.acknowledged):
            told = line.decode()
            (self.blows if told.startswith("!") else self.acknowledged).append(told)

    async def blow(self) -> None:
        """Wait until a process says that it is about to get its own."""
        await until(lambda: bool(self.blows))

    async def moment(self, strike: Strike) -> None:
        """Wait for it, counted from now; for ever if it does not come."""
        match strike.of:
            case "start":
                await trio.sleep_until(self._born + strike.at * self.pace.start)
            case "checkpoint":
                seen = self.checkpoints - (self.phase == "checkpoint")
                await until(lambda: self.checkpoints > seen)
                await trio.sleep(strike.at * self.pace.checkpoint)
            case "lines":
                wanted = self.lines + strike.at
                await until(lambda: self.lines >= wanted)
            case "effects" | "calls":
                wanted = self._in_accounts(strike.of) + strike.at
                await until(lambda: self._in_accounts(strike.of) >= wanted)
            case "names" | "publish" | "closed":
                raise AssertionError(f"{strike.of} is no moment that a run shows")

    def _in_accounts(self, of: str) -> int:
        paths = (self.folder / "accounts").glob("*.jsonl")
        return sum(
            path.read_bytes().count(b"\n")
            for path in paths
            if (path.name == "inference.jsonl") is (of == "calls")
        )


async def _lines(stream: trio.lowlevel.FdStream):
    rest = b""
    async for data in stream:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
