"""A server that several workers serve, behind one port: its coordinator, and each of them, is a process.

What a worker gets is routed, passed on and answered by the product's own code, over sockets that have no
file; the line to the coordinator is in memory, so that frames can be late.
"""

import contextlib
import itertools
import socket
from collections.abc import Callable
from os import getpid  # the real one: simulated processes all have one number
from pathlib import Path

import trio

from fuzz.simulation.lines import End, a_line
from fuzz.simulation.network import Network
from fuzz.simulation.probe import Probe
from fuzz.simulation.processes import Process, inline
from triocollect.participant import Admission, ControlPlane
from triocollect.participant.workers import Coordinator, Member
from triocollect.servers.workers.passing import Passer, serve_passed
from triocollect.servers.workers.places import COORDINATOR, listen_in, socket_in
from triocollect.servers.workers.routing import Router
from triocollect.servers.workers.whose import whose

_numbers = itertools.count()


class Worker(Process):
    """One of them."""

    def __init__(self, number: int, crew: "Crew", build: Callable, link: End):
        super().__init__(crew.name, build, crew.network)
        self._number, self._crew, self._link = number, crew, link
        self.hooks = self.app.state.hooks
        self._member = Member(self.hooks, self.app.state.admission, link)
        ways = {
            each: Passer(f"worker {each}", socket_in(crew.folder, each))
            for each in range(1, crew.size + 1)
            if each != number
        }
        coordinator = Passer("the coordinator", socket_in(crew.folder, COORDINATOR))
        self._ways = [*ways.values(), coordinator]
        self.app = Router(self.app, self._member, whose(self.hooks.kind), ways, coordinator)

    async def _come_up(self, whole: trio.Nursery) -> None:
        self._tasks.start_soon(self._obey)
        await self._member.ready.wait()
        await super()._come_up(whole)
        self._tasks.start_soon(serve_passed, self.app, self._crew.listener(self._number))

    async def _obey(self) -> None:
        await self._member.run()
        self.die()

    def _opens(self) -> None:
        self.stands = True
        self._crew.changes()

    def die(self) -> None:
        super().die()
        self._link.close()  # by the kernel, however long the rest takes here

    async def _let_go(self) -> None:
        self._link.close()
        for way in self._ways:
            await way.close()


class Crew(Process):
    """The coordinator, and the workers that it keeps. When it dies they are gone as well.

    `build` of a number makes the application of that worker; of None one that is like them. `place`: the
    token, and the checkpoint directory.
    """

    def __init__(self, name: str, size: int, build: Callable, network: Network, place: tuple[str, Path]):
        token, root = place
        self.size, self._build = size, build
        self.workers: dict[int, Worker] = {}
        self.folder = f"\0triocollect-{getpid()}-{next(_numbers)}"  # of sockets without files
        self._sockets: dict[int, socket.socket] = {}
        self._away_s: dict[int, float] = {}
        self._changed = trio.Event()
        self._admission = Admission()

        def plane(reach):
            likeness = build(None)(reach).state.hooks
            self._coordinator = Coordinator(size, likeness, self._admission)
            return ControlPlane(
                _no_application, self._coordinator, self._admission, token=token, root=root, in_thread=inline
            )

        super().__init__(name, plane, network)
        self.probe = Probe(self._admission, self._hooks, self._coordinator.crew)

    def _hooks(self) -> list:
        return [worker.hooks for worker in self.workers.values() if worker.stands]

    async def run(self, task_status=trio.TASK_STATUS_IGNORED):
        with contextlib.ExitStack() as stack:
            for number in range(self.size + 1):
                self._sockets[number] = stack.enter_context(listen_in(self.folder, number))
            await super().run(task_status)

    def listener(self, number: int) -> trio.SocketListener:
        """The socket outlives who listens there."""
        return trio.SocketListener(trio.socket.from_stdlib_socket(self._sockets[number].dup()))

    async def _come_up(self, whole: trio.Nursery) -> None:
        self._tasks.start_soon(self._coordinator.keep_lease)
        await super()._come_up(whole)
        self._tasks.start_soon(serve_passed, self.app, self.listener(COORDINATOR))
        for number in range(1, self.size + 1):
            self._tasks.start_soon(self._keep, number)

    async def _keep(self, number: int) -> None:
        while True:
            ours, theirs = a_line(self.network.link_lasts)
            worker = self.workers[number] = Worker(number, self, self._build(number), theirs)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.run)
                await self._coordinator.serve(number, ours)
                worker.die()
            await trio.sleep(self._away_s.pop(number, 0.0))

    async def accepts(self) -> Process | None:
        """One of those that are there; without one the connection waits for the next."""
        while not self.dead:
            if there := [worker for worker in self.workers.values() if worker.stands]:
                return self.network.dice.choice(there)
            await self._changed.wait()
        return None

    def changes(self) -> None:
        """Who is there."""
        self._changed.set()
        self._changed = trio.Event()

    def lose(self, number: int, away_s: float) -> bool:
        """A worker dies, and another one is there so much later; whether it was there."""
        worker = self.workers.get(number)
        if worker is None or not worker.stands:
            return False
        self._away_s[number] = away_s
        worker.die()
        return True

    def die(self) -> None:
        super().die()
        for worker in self.workers.values():
            worker.die()
        self.changes()


async def _no_application(_scope, receive, send) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
