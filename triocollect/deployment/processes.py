"""The processes of an embedded deployment: sockets handed down, a lifeline each, no orphan."""

import contextlib
import logging
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import trio

from triocollect.deployment.plan import ENVIRONMENT, Address, Plan, Process, settings_of
from triocollect.deployment.provisions import listen, need_free, read_api_key, require_servers
from triocollect.deployment.telling import further, of_process
from triocollect.errors import DeploymentError
from triocollect.protocol.handed_down import (
    END_GRACE_S,
    IGNORING_SIGNALS,
    KILL_GRACE_S,
    MODULE,
    NOTE,
    how_it_ended,
)
from triocollect.telemetry.recorder import LAST_WORDS_S

START_TIMEOUT_S: Final = 120.0  # a machine may be busy; a server that dies is told at once
TELL_AFTER_S: Final = 5.0  # of waiting for it, and then
TELL_EVERY_S: Final = 30.0
TOLD_LINES: Final = 12  # of a dead server's last words
TOLD_BYTES: Final = 4096  # of each of them

_log: Final = logging.getLogger(__name__)


async def deploy(
    plan: Plan,
    *,
    on_death: Callable[[DeploymentError], None] = lambda _: None,
    leave: trio.Event | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Start the deployment, tell the base URL of its head once that answers, and serve until cancelled.

    The other servers may still be starting then; their sockets listen already, and a request that is early
    waits. Raises UsageError where the deployment cannot be (the `servers` extra is missing, a port is taken,
    the key file cannot be read), DeploymentError when a server ends by itself. `on_death` hears of that at
    once; it is raised when the others have ended too, also where whoever heard of it cancels all this.
    From `leave` on participants end as soon as no collector needs them; this returns after the last of them.
    """
    require_servers()
    api_key = read_api_key(plan.model_api_key_file)
    for by, process in enumerate(plan.processes):
        if (address := further(plan.telemetry, by).prometheus) is not None:
            need_free(address, process.name)
    listeners = _listen(plan)
    ours = {name: Address(*listener.getsockname()[:2]) for name, listener in listeners.items()}
    addresses = {**plan.peers, **ours}
    deaths: list[DeploymentError] = []
    participants = {process for process in plan.processes if plan.takes_part(process)}

    async def keep(process: Process) -> None:
        settings = msgspec.json.encode(settings_of(plan, process, addresses, api_key))
        never = trio.Event()
        leaving = never if leave is None or process not in participants else leave
        command = [process.kind, "--name", process.name, "--workers", str(plan.workers_of(process))]
        command += of_process(plan, process)
        death = await _keep(process, command, listeners[process.name], settings, leaving)
        if death is None:
            participants.remove(process)
        else:
            on_death(death)
            deaths.append(death)
        if death is not None or not participants:
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            for process in plan.processes:
                nursery.start_soon(keep, process)
            answered = trio.Event()
            nursery.start_soon(_tell_of_waiting, addresses[ENVIRONMENT], answered)
            with trio.move_on_after(START_TIMEOUT_S) as patience:
                if not await _answers(addresses[ENVIRONMENT]):
                    await trio.sleep_forever()  # it is dead, and of what is known a tick later
            answered.set()
            if not patience.cancelled_caught:
                task_status.started(addresses[ENVIRONMENT].url)
                await trio.sleep_forever()
            deaths.append(DeploymentError(f"the servers did not start within {START_TIMEOUT_S:g} s"))
            nursery.cancel_scope.cancel()
    finally:
        if deaths:
            raise deaths[0] from None


async def _tell_of_waiting(address: Address, answered: trio.Event) -> None:
    """Say who is missing: soon, and then seldom."""
    began, pause_s = trio.current_time(), TELL_AFTER_S
    while True:
        with trio.move_on_after(pause_s):
            await answered.wait()
            return
        waited_s = trio.current_time() - began
        _log.warning(
            "waiting for the %s server at %s to start: %.0f s so far, %g s at most",
            *(ENVIRONMENT, address.url, waited_s, START_TIMEOUT_S),
        )
        pause_s = TELL_EVERY_S


async def _keep(
    process: Process, command: Sequence[str], listener: socket.socket, settings: bytes, leave: trio.Event
) -> DeploymentError | None:
    """Start a server, and hold its lifeline until this is cancelled.

    Returns what it died of; None where it was to leave, and left.
    """
    fd = str(listener.fileno())
    try:
        child = await trio.lowlevel.open_process(
            [*IGNORING_SIGNALS, sys.executable, "-m", MODULE, *command, "--fd", fd, "--lifeline"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
    except OSError as error:
        return DeploymentError(f"the {process.name} server could not be started: {error}")
    finally:
        listener.close()  # ours: nobody must be able to connect to a server that is gone
    words: deque[bytes] = deque(maxlen=TOLD_LINES)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_overhear, child, words)
            await _tell(child, settings)
            async with trio.open_nursery() as alive:
                alive.start_soon(_let_go, child, leave)
                await child.wait()
                alive.cancel_scope.cancel()
    finally:
        await _end(child)
    if leave.is_set() and child.returncode == 0:
        return None
    return DeploymentError(_obituary(process, child.returncode, words))


async def _let_go(child: trio.Process, leave: trio.Event) -> None:
    """Once it may leave, tell it so by a line on its lifeline."""
    await leave.wait()
    await _tell(child, b"leave")


async def _tell(child: trio.Process, line: bytes) -> None:
    assert child.stdin is not None
    try:
        await child.stdin.send_all(line + b"\n")
    except trio.BrokenResourceError:
        return  # it is dead already, which is told by its exit


async def _overhear(child: trio.Process, words: deque[bytes]) -> None:
    """Keep the last lines of what a server says on its standard error, and pass its notes on."""
    assert child.stderr is not None
    rest = b""
    async for data in child.stderr:
        *lines, rest = (line[:TOLD_BYTES] for line in (rest + data).split(b"\n"))
        words.extend(lines)
        for line in lines:
            if NOTE in (text := line.decode(errors="replace")):
                _log.warning("%s", text.replace(NOTE, "", 1))  # the least that shows by itself
    if rest:
        words.append(rest)


async def _end(child: trio.Process) -> None:
    """Let go of the lifeline, and kill a server that stays."""
    assert child.stdin is not None
    assert child.stderr is not None
    with trio.CancelScope(shield=True):  # bounded twice below
        await child.stdin.aclose()
        with trio.move_on_after(END_GRACE_S + LAST_WORDS_S):
            await child.wait()
        if child.returncode is None:
            child.kill()
            with trio.move_on_after(KILL_GRACE_S):
                await child.wait()
        await child.stderr.aclose()


async def _answers(address: Address) -> bool:
    """Wait until a server answers; False if it died instead.

    The kernel connects before the server is there, so nothing has to be tried again.
    """
    try:
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return await stream.receive_some() != b""
    except (OSError, trio.BrokenResourceError):
        return False


def _obituary(process: Process, returncode: int | None, words: deque[bytes]) -> str:
    last = b"\n".join(words).decode(errors="replace").strip()
    return f"the {process.name} server ended ({how_it_ended(returncode)})" + (
        f"; its last words:\n{last}" if last else ""
    )


def _listen(plan: Plan) -> dict[str, socket.socket]:
    """A socket for each process; all of them, or none."""
    listeners: dict[str, socket.socket] = {}
    with contextlib.ExitStack() as opened:
        for process in plan.processes:
            listener = listen(process.name, plan.host, plan.ports.get(process.name, 0))
            listeners[process.name] = opened.enter_context(listener)
        opened.pop_all()
    return listeners
