"""The coordinator as a process: it starts the workers, starts a lost one again, and answers for them all."""

import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, final

import msgspec
import trio
from attrs import field, frozen
from msgspec import Raw

from triocollect.errors import DeploymentError, reason_of
from triocollect.participant import Admission, ControlPlane, Hooks
from triocollect.participant.asgi import Message, Receive, Scope, Send
from triocollect.participant.attendance import Attendance
from triocollect.participant.hooks import R
from triocollect.participant.workers import Coordinator
from triocollect.protocol.handed_down import (
    IGNORING_SIGNALS,
    KILL_GRACE_S,
    MODULE,
    how_it_ended,
)
from triocollect.servers.observed import Observed, flush_s
from triocollect.servers.serve import GRACE_S, Ending
from triocollect.servers.taking_part import CheckpointSettings, WorkerNumber
from triocollect.servers.workers.framed import SocketLink
from triocollect.servers.workers.passing import serve_passed
from triocollect.servers.workers.places import COORDINATOR, Place, listen_in, private_folder
from triocollect.telemetry.here import recording

MOST_LOSSES: Final = 5  # of one worker within LOSSES_WITHIN_S: then it cannot be kept going
LOSSES_WITHIN_S: Final = 60.0
WORKER_GRACE_S: Final = 0.25  # from the end of its link to the kill: it has an alarm of its own before that
LAST_RESORT_S: Final = (
    0.4  # as serve.py has it, of a coordinator: workers that are stopped are killed by then
)


@frozen
class Crewed:
    """A server that several workers are to serve: its settings as a JSON line, its port as a descriptor.

    `flags`: what its workers are told beside.
    """

    kind: str
    name: str
    settings: bytes = field(repr=False)  # with a token, and perhaps a key
    fd: int
    workers: int
    flags: tuple[str, ...] = ()


class _Settings(msgspec.Struct, frozen=True):
    checkpoint: CheckpointSettings | None = None


@final
class Keeper(Generic[R]):
    """Keeps the workers of one server. `hooks` are like theirs, and are never served."""

    def __init__(self, crewed: Crewed, hooks: Hooks[R], tell: Callable[[str], None]) -> None:
        self._crewed: Final = crewed
        self._tell: Final = tell
        self._admission: Final = Admission()
        self._coordinator: Final = Coordinator(crewed.workers, hooks, self._admission)
        self._checkpoint: Final = msgspec.json.decode(crewed.settings, type=_Settings).checkpoint
        self._leaving: Final = trio.Event()

    @property
    def attendance(self) -> Attendance | None:
        """Whether a collector needs the server; None where it takes no part in checkpoints."""
        return None if self._checkpoint is None else self._admission.attendance

    async def serve(self, until: Ending, grace_s: float = GRACE_S) -> None:
        """Serve until `until` returns; requests in flight then have `grace_s`.

        Raises DeploymentError where a worker cannot be kept going.
        """
        try:
            with private_folder() as folder:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._coordinator.keep_lease)
                    if self._checkpoint is not None:
                        await nursery.start(self._answer, folder, self._checkpoint)
                    async with trio.open_nursery() as workers:
                        for number in range(1, self._crewed.workers + 1):
                            workers.start_soon(self._keep, folder, number)
                        await until()
                        self._leaving.set()
                        workers.cancel_scope.deadline = trio.current_time() + grace_s
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise reason_of(group) from group

    # -- control calls --------------------------------------------------------------------------------------

    async def _answer(
        self, folder: str, checkpoint: CheckpointSettings, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Answer what the workers pass on. The control plane's tasks live in its lifespan, which is this."""
        plane: ControlPlane[R] = ControlPlane(
            _lifespan,
            self._coordinator,
            self._admission,
            token=checkpoint.token,
            root=Path(checkpoint.directory),
        )
        up = trio.Event()

        async def live() -> None:
            async def send(_message: Message) -> None:
                up.set()

            await plane({"type": "lifespan"}, _forever, send)

        with listen_in(folder, COORDINATOR) as sock:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live)
                await up.wait()
                nursery.start_soon(serve_passed, Observed(plane), listener)
                task_status.started()

    # -- workers --------------------------------------------------------------------------------------------

    async def _keep(self, folder: str, number: int) -> None:
        """Start a worker, and another one in its place whenever it is lost, until all are to leave."""
        losses: deque[float] = deque(maxlen=MOST_LOSSES)
        with listen_in(folder, number) as passed:
            while not self._leaving.is_set():
                returncode = await self._live(folder, number, passed)
                if self._leaving.is_set():
                    return
                losses.append(trio.current_time())
                how = how_it_ended(returncode)
                if len(losses) == MOST_LOSSES and losses[-1] - losses[0] < LOSSES_WITHIN_S:
                    raise DeploymentError(
                        f"worker {number} was lost {MOST_LOSSES} times within "
                        f"{LOSSES_WITHIN_S:g} s, the last time {how}"
                    )
                self._tell(f"worker {number} was lost ({how}); another one takes its place")

    async def _live(self, folder: str, number: int, passed: socket.socket) -> int | None:
        """One worker from its start to its end; how it ended."""
        ours, theirs = _linked(number)
        link = SocketLink(trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
        worker: trio.Process | None = None
        try:
            with theirs:
                place = self._place(folder, number, theirs, passed)
                worker = await self._started(place)
            await _write(worker, self._settings(number) + b"\n" + msgspec.json.encode(place) + b"\n")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._let_leave, worker)
                await self._coordinator.serve(number, link)
                nursery.cancel_scope.cancel()
        finally:
            await link.close()
            if worker is not None:
                await _end(worker)
        return worker.returncode

    def _place(self, folder: str, number: int, link: socket.socket, passed: socket.socket) -> Place:
        return Place(
            number=number,
            of=self._crewed.workers,
            link=link.fileno(),
            passed=passed.fileno(),
            folder=folder,
            controlled=self._checkpoint is not None,
            counting=recording().counts is not None,
        )

    async def _started(self, place: Place) -> trio.Process:
        """It waits for its settings: whoever has it ends it, too."""
        crewed, number = self._crewed, place.number
        name = f"{crewed.name} {number}"
        command = (sys.executable, "-m", MODULE, crewed.kind, "--name", name, "--fd", str(crewed.fd))
        try:
            return await trio.lowlevel.open_process(
                [*IGNORING_SIGNALS, *command, "--worker", *crewed.flags],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[crewed.fd, place.link, place.passed],
            )
        except OSError as error:
            raise _not_started(number, error) from error

    def _settings(self, number: int) -> bytes:
        """The server's, with this worker's number among what it takes part with."""
        if self._checkpoint is None:
            return self._crewed.settings.strip()
        fields = msgspec.json.decode(self._crewed.settings, type=dict[str, Raw])
        mine = msgspec.structs.replace(self._checkpoint, worker=WorkerNumber(number, self._crewed.workers))
        return msgspec.json.encode({**fields, "checkpoint": mine})

    async def _let_leave(self, worker: trio.Process) -> None:
        await self._leaving.wait()
        await _write(worker, b"leave\n")


def _linked(number: int) -> tuple[socket.socket, socket.socket]:
    """Both ends of a worker's link. Raises DeploymentError where there are no more descriptors."""
    try:
        return socket.socketpair()
    except OSError as error:
        raise _not_started(number, error) from error


def _not_started(number: int, error: OSError) -> DeploymentError:
    return DeploymentError(f"worker {number} could not be started: {error}")


async def _write(worker: trio.Process, lines: bytes) -> None:
    assert worker.stdin is not None
    try:
        await worker.stdin.send_all(lines)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return  # it is dead, which is told by its exit


async def _end(worker: trio.Process) -> None:
    """Kill a worker that stays when its link has ended, as one does that a signal has stopped."""
    assert worker.stdin is not None
    with trio.CancelScope(shield=True):  # bounded twice below
        with trio.move_on_after(WORKER_GRACE_S + flush_s()):
            await worker.wait()
        if worker.returncode is None:
            worker.kill()
            with trio.move_on_after(KILL_GRACE_S):
                await worker.wait()
        await worker.stdin.aclose()


async def _lifespan(_scope: Scope, receive: Receive, send: Send) -> None:
    """The application behind the coordinator's control plane: there is none."""
    await send({"type": "lifespan.startup.complete"})
    await receive()


async def _forever() -> Message:
    await trio.sleep_forever()
    raise AssertionError
