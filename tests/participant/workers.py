"""Several workers and their coordinator in one process, joined by streams in memory."""

from collections import deque
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from tests.participant.counts import Counts, serve_lifespan
from tests.participant.harness import TOKEN, Caller, lifespan_of
from triocollect.participant import Admission, ControlPlane
from triocollect.participant.workers import Coordinator, Member, owner_of
from triocollect.protocol.ids import EpisodeId


class OneWay:
    """Frames in order, until it is closed."""

    def __init__(self):
        self._frames, self._closed, self._changed = deque(), False, anyio.Event()
        self._held = False

    async def send(self, frame):
        await anyio.lowlevel.checkpoint()
        if self._closed:
            raise anyio.BrokenResourceError
        self._frames.append(frame)
        self._change()

    async def receive(self):
        await anyio.lowlevel.checkpoint()
        while self._held or not self._frames:
            if self._closed:
                raise anyio.EndOfStream
            await self._changed.wait()
        return self._frames.popleft()

    def close(self):
        self._closed = True
        self._change()

    def hold(self, *, held=True):
        """Nothing arrives for a while."""
        self._held = held
        self._change()

    def _change(self):
        self._changed.set()
        self._changed = anyio.Event()


class MemoryLink:
    """One end of a line in memory."""

    def __init__(self, outwards, inwards):
        self._ways = outwards, inwards
        self.send, self.receive = outwards.send, inwards.receive

    def close(self):
        for way in self._ways:
            way.close()

    def hold(self):
        self._ways[1].hold()

    def go_on(self):
        self._ways[1].hold(held=False)


def a_line():
    """Both ends of one."""
    there, back = OneWay(), OneWay()
    return MemoryLink(there, back), MemoryLink(back, there)


class Worker:
    """A process of several: what it counts dies with it."""

    def __init__(self, number):
        self.number = number
        self.admission = Admission()
        self.counts = Counts(self.admission)
        self.ours, self.theirs = a_line()
        self.member = Member(self.counts, self.admission, self.theirs)
        self.scope, self.gone = anyio.CancelScope(), anyio.Event()

    async def run(self):
        with self.scope:
            await self.member.run()
        self.theirs.close()

    async def add(self, episode, number=1):
        """As whoever serves requests here does it."""
        await self.member.ready.wait()
        if self.member.lost(episode):
            return "lost"
        await self.member.noted(episode)
        return await self.counts.add(episode, number)


class Crowd(Caller):
    """Calls the coordinator as a collector does, and the workers as rows do."""

    def __init__(self, plane, coordinator, root, tasks):
        super().__init__(plane, None, root)
        self.coordinator = coordinator
        self.workers = {}
        self._tasks = tasks

    async def start(self, number):
        """A worker of this number joins."""
        worker = self.workers[number] = Worker(number)
        self._tasks.start_soon(self._serve, worker)
        self._tasks.start_soon(worker.run)
        await worker.member.ready.wait()
        return worker

    async def _serve(self, worker):
        await self.coordinator.serve(worker.number, worker.ours)
        worker.gone.set()

    async def kill(self, number):
        """The worker is gone with all that it has."""
        worker = self.workers.pop(number)
        worker.scope.cancel()
        await worker.gone.wait()
        return worker

    def owner(self, episode):
        """The worker that keeps this episode."""
        return self.workers[owner_of(episode.rollout_id, self.coordinator.workers)]

    async def add(self, episode, number=1):
        return await self.owner(episode).add(episode, number)


async def no_application(scope, receive, send):
    await serve_lifespan(receive, send)


@asynccontextmanager
async def crowd(root, size, *, in_thread=anyio.to_thread.run_sync, joined=True):
    """So many workers, with nothing counted, and a caller."""
    admission = Admission()
    coordinator = Coordinator(size, Counts(Admission()), admission)
    plane = ControlPlane(no_application, coordinator, admission, token=TOKEN, root=root, in_thread=in_thread)
    async with lifespan_of(plane), anyio.create_task_group() as tasks:
        tasks.start_soon(coordinator.keep_lease)
        caller = Crowd(plane, coordinator, root, tasks)
        async with caller.client:
            if joined:
                for number in coordinator.crew.numbers:
                    await caller.start(number)
            yield caller
        tasks.cancel_scope.cancel()


EPISODES = [EpisodeId(f"r{number}") for number in range(12)]
