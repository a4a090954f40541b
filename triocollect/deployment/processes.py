"""The processes of an embedded deployment: sockets handed down, a lifeline each, no orphan."""

import socket
import subprocess
import sys
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec
import trio

from triocollect.deployment.plan import ENVIRONMENT, Address, Plan, Process, settings_of
from triocollect.errors import DeploymentError, UsageError

BACKLOG: Final = 4096
START_TIMEOUT_S: Final = 120.0  # a machine may be busy; a server that dies is told at once
END_GRACE_S: Final = 5.0  # from the end of the lifeline to the kill
KILL_GRACE_S: Final = 1.0  # from the kill to its effect
TOLD_LINES: Final = 12  # of a dead server's last words

# The shell is there for a child's first moments: signals that are ignored when Python starts stay ignored.
IGNORING_SIGNALS: Final = ("/bin/sh", "-c", "trap '' INT TERM USR1; exec \"$@\"", "sh")


async def deploy(plan: Plan, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
    """Start the deployment, tell the base URL of its head once that answers, and serve until cancelled.

    The other servers may still be starting then; their sockets listen already, and a request that is early
    waits. Raises UsageError where the deployment cannot be (the `servers` extra is missing, a port is taken,
    the key file cannot be read), DeploymentError when a server ends by itself.
    """
    _require_servers()
    api_key = _api_key(plan.model_api_key_file)
    listeners = _listen(plan)
    addresses = {name: Address(*listener.getsockname()[:2]) for name, listener in listeners.items()}
    deaths: list[DeploymentError] = []

    async def keep(process: Process) -> None:
        settings = settings_of(plan, process, addresses, api_key)
        deaths.append(await _keep(process, listeners[process.name], msgspec.json.encode(settings)))
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for process in plan.processes:
            nursery.start_soon(keep, process)
        if await _answers(addresses[ENVIRONMENT]):
            task_status.started(addresses[ENVIRONMENT].url)
            await trio.sleep_forever()
        deaths.append(DeploymentError(f"the servers did not start within {START_TIMEOUT_S:g} s"))
        nursery.cancel_scope.cancel()
    raise deaths[0]


async def _keep(process: Process, listener: socket.socket, settings: bytes) -> DeploymentError:
    """Start a server, and hold its lifeline until this is cancelled. Returns what it died of."""
    command = (sys.executable, "-m", "triocollect.servers", process.kind, "--name", process.name)
    fd = str(listener.fileno())
    try:
        child = await trio.lowlevel.open_process(
            [*IGNORING_SIGNALS, *command, "--fd", fd, "--lifeline"],
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
            await child.wait()
    finally:
        await _end(child)
    return DeploymentError(_obituary(process, child.returncode, words))


async def _tell(child: trio.Process, settings: bytes) -> None:
    assert child.stdin is not None
    try:
        await child.stdin.send_all(settings + b"\n")
    except trio.BrokenResourceError:
        return  # it is dead already, which is told by its exit


async def _overhear(child: trio.Process, words: deque[bytes]) -> None:
    """Keep the last lines of what a server says on its standard error."""
    assert child.stderr is not None
    rest = b""
    async for data in child.stderr:
        *lines, rest = (rest + data).split(b"\n")
        words.extend(lines)
    if rest:
        words.append(rest)


async def _end(child: trio.Process) -> None:
    """Let go of the lifeline, and kill a server that stays."""
    assert child.stdin is not None
    assert child.stderr is not None
    with trio.CancelScope(shield=True):  # bounded twice below
        await child.stdin.aclose()
        with trio.move_on_after(END_GRACE_S):
            await child.wait()
        if child.returncode is None:
            child.kill()
            with trio.move_on_after(KILL_GRACE_S):
                await child.wait()
        await child.stderr.aclose()


async def _answers(address: Address) -> bool:
    """Whether a server answers in time; the kernel connects before the server is there."""
    with trio.move_on_after(START_TIMEOUT_S):
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return await stream.receive_some() != b""
    return False


def _obituary(process: Process, returncode: int | None, words: deque[bytes]) -> str:
    code = returncode or 0
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    last = b"\n".join(words).decode(errors="replace").strip()
    return f"the {process.name} server ended ({how})" + (f"; its last words:\n{last}" if last else "")


def _listen(plan: Plan) -> dict[str, socket.socket]:
    listeners: dict[str, socket.socket] = {}
    for process in plan.processes:
        port = plan.ports.get(process.name, 0)
        try:
            listener = socket.create_server((plan.host, port), backlog=BACKLOG)
        except OSError as error:
            for opened in listeners.values():
                opened.close()
            raise UsageError(
                f"the {process.name} server cannot listen on {plan.host}:{port}: {error.strerror}; "
                "end what listens there, or give another port"
            ) from error
        listeners[process.name] = listener
    return listeners


def _require_servers() -> None:
    if missing := [name for name in ("hypercorn", "starlette") if find_spec(name) is None]:
        raise UsageError(
            f"the embedded deployment needs {' and '.join(missing)}: pip install 'triocollect[servers]' "
            "(or give --head-server or --environment-url)"
        )


def _api_key(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"model_api_key_file {file} cannot be read: {error}") from error
