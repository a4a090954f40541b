"""Real processes that have nothing to import: the driver's side of the zygote."""

import array
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import trio
from attrs import define, field

from fuzz.live.orders import MOST_BYTES, Birth, Born, Ended

ROOT: Final = Path(__file__).parents[2]
LOOK_S: Final = 0.01


@define
class Process:
    """One that was born. `words`: what it says on standard output and error."""

    pid: int
    words: trio.lowlevel.FdStream
    acknowledged: trio.lowlevel.FdStream
    code: int | None = None
    ended: trio.Event = field(factory=trio.Event)


class Zygote:
    """Bears processes, and tells when they have ended."""

    def __init__(self, sock: trio.socket.SocketType) -> None:
        self._sock, self._one_at_a_time = sock, trio.Lock()
        self._awaited: tuple[Process, trio.Event] | None = None
        self._living: dict[int, Process] = {}

    async def bear(self, birth: Birth) -> Process:
        """A process; its pid is there when this returns."""
        async with self._one_at_a_time:
            words, its_words = os.pipe()
            acknowledged, its_acknowledged = os.pipe()
            null = os.open(os.devnull, os.O_RDONLY)
            fds = array.array("i", [null, its_words, its_words, its_acknowledged])
            process = Process(0, trio.lowlevel.FdStream(words), trio.lowlevel.FdStream(acknowledged))
            self._awaited = process, (born := trio.Event())
            try:
                packed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
                await self._sock.sendmsg([msgspec.json.encode(birth)], packed)
            finally:
                for fd in {*fds}:
                    os.close(fd)
            await born.wait()
        return process

    async def listen(self) -> None:
        """Until cancelled."""
        while data := await self._sock.recv(MOST_BYTES):
            match msgspec.json.decode(data, type=Born | Ended):
                case Born(pid):
                    assert self._awaited is not None
                    process, born = self._awaited
                    process.pid, self._living[pid] = pid, process
                    born.set()
                case Ended(pid, code):
                    process = self._living.pop(pid)
                    process.code = code
                    process.ended.set()


@asynccontextmanager
async def zygote():
    """One that lives as long as the block; with it die all that it bore."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "fuzz.live.zygote", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
    )
    theirs.close()
    try:
        with trio.socket.from_stdlib_socket(ours) as sock:
            async with trio.open_nursery() as nursery:
                bearer = Zygote(sock)
                nursery.start_soon(bearer.listen)
                yield bearer
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):  # it ends with its socket
            code = await process.wait()
    assert code == 0  # asked of nobody whom a Ctrl-C has reached while it was imported


async def until(holds: Callable[[], bool], look_s: float = LOOK_S) -> None:
    """Look for something that another process does."""
    while not holds():  # noqa: ASYNC110  # nobody here could set an event
        await trio.sleep(look_s)


def session_of(*pids: int) -> dict[int, str]:
    """Processes of these sessions that are no zombies: ids, and what they are called."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        if (told := _stat(path)) is not None:
            name, state, _parent, _group, session = told
            if int(session) in pids and state != "Z":
                found[int(path.name)] = _server_in(path) or name
    return found


async def gone(pid: int, within_s: float) -> dict[int, str]:
    """Wait until nobody of a session is left; those that are."""
    with trio.move_on_after(within_s):
        await until(lambda: not session_of(pid), LOOK_S)
    return session_of(pid)


def end(session: int) -> None:
    """Kill all that is left of it."""
    for pid in session_of(session):
        sent(pid, signal.SIGKILL)


def sent(pid: int, number: signal.Signals) -> bool:
    """Signal it; whether it was there."""
    if not stands(pid):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def stands(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    told = _stat(Path(f"/proc/{pid}"))
    return told is not None and told[1] != "Z"


def _server_in(process: Path) -> str:
    """The name of a server that was started, not forked."""
    try:
        words = (process / "cmdline").read_text().split("\0")
    except OSError:
        return ""
    return words[words.index("--name") + 1] if "--name" in words else ""


def _stat(process: Path) -> tuple[str, str, str, str, str] | None:
    try:
        told = (process / "stat").read_text()
    except OSError:
        return None
    name, _, rest = told.partition("(")[2].rpartition(")")
    state, parent, group, session, *_ = rest.split()
    return name, state, parent, group, session
