"""One worker as a process: its application behind a router, on the port that all share."""

import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Final

import trio
from attrs import evolve, frozen
from starlette.applications import Starlette

from triocollect.participant import Hooks
from triocollect.participant.workers import Member
from triocollect.protocol.manifests import Record
from triocollect.servers.observed import flush_s
from triocollect.servers.serve import LAST_RESORT_S, STDIN, serve_app
from triocollect.servers.workers.framed import SocketLink
from triocollect.servers.workers.passing import Passer, serve_passed
from triocollect.servers.workers.places import COORDINATOR, Place, remove, socket_in
from triocollect.servers.workers.routing import Router
from triocollect.servers.workers.whose import whose
from triocollect.telemetry.here import record, recording

_READ: Final = 1024
_NONE: Final[Mapping[str, str]] = {}


@frozen
class Told:
    """Counts go to the coordinator, whose metrics are those of the server. See `telemetry.here.Counts`."""

    _member: Member[Record]

    def add(self, name: str, by: float, attributes: Mapping[str, str] = _NONE, /) -> None:
        """More of something."""
        self._member.counted(name, by, attributes)

    def watch(self, name: str, value: Callable[[], float], attributes: Mapping[str, str] = _NONE, /) -> None:
        """Raises NotImplementedError: what several workers stand at is no sum that a server has."""
        raise NotImplementedError(name)


def run_worker(kind: str, app: Starlette, fd: int, place: Place) -> None:
    """Serve until told to leave, or until the coordinator is gone: then nothing here is of use to anybody."""
    trio.run(_serve, kind, app, fd, place)


async def _serve(kind: str, app: Starlette, fd: int, place: Place) -> None:
    hooks: Hooks[Record] = app.state.hooks  # whatever more its records have
    member = Member(hooks, app.state.admission, SocketLink(_inherited(place.link)))
    others = {
        number: Passer(f"worker {number}", socket_in(place.folder, number))
        for number in range(1, place.of + 1)
        if number != place.number
    }
    coordinator = Passer("the coordinator", socket_in(place.folder, COORDINATOR))
    router = Router(app, member, whose(kind), others, coordinator if place.controlled else None)
    mine = evolve(recording(), counts=Told(member)) if place.counting else recording()
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(socket.socket(fileno=place.passed)))
    with record(mine):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_alone, member, place.folder, nursery.cancel_scope)
            await member.ready.wait()
            nursery.start_soon(serve_passed, router, listener)
            await serve_app(router, f"fd://{fd}", _told_to_leave)
            nursery.cancel_scope.cancel()
    for each in (*others.values(), coordinator):
        await each.close()


def _inherited(fd: int) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=fd)))


async def _until_alone(member: Member[Record], folder: str, whole: trio.CancelScope) -> None:
    await member.run()
    signal.setitimer(signal.ITIMER_REAL, LAST_RESORT_S + flush_s())
    remove(folder)
    whole.cancel()


async def _told_to_leave() -> None:
    """Wait for a line on standard input, or for its end."""
    async with trio.lowlevel.FdStream(os.dup(STDIN)) as lifeline:
        await lifeline.receive_some(_READ)
