"""A run and its participants in one process: real control planes, simulated time."""

from contextlib import asynccontextmanager

import trio

from tests.checkpoint.network import TOKEN, Network
from tests.checkpoint.server import Server
from triocollect.checkpoint.controller import command
from triocollect.checkpoint.coordination import Coordination, lease_s
from triocollect.checkpoint.crew import Crew, UnderWay
from triocollect.checkpoint.discovery import Candidate, control_client, discover
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.ladder import read_latest
from triocollect.checkpoint.store import Store
from triocollect.checkpoint.taking import take_checkpoint
from triocollect.checkpoint.whole import read_whole
from triocollect.events import CheckpointEnded, Note
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.protocol.ids import EpisodeId, RowKey

KINDS = ("environment", "model", "agent", "resources")


class Air:
    """The rows of a run, moved by hand."""

    def __init__(self):
        self.gate, self.ledger = Gate(16), Ledger()
        self.syncs = 0
        self.at_sync = lambda: None
        self.cancelled = False
        self.without_control: dict[EpisodeId, str] = {}
        self._landed = trio.Event()
        self.told_retired = 0

    async def sync(self):
        self.syncs += 1
        self.at_sync()

    async def ended(self, episodes):
        while not set(episodes).isdisjoint(self.ledger.flying.values()):
            self._landed = trio.Event()
            await self._landed.wait()

    def uncontrolled(self):
        return self.without_control

    def work_s(self, episodes):
        return 10.0 * len(episodes)

    def retired(self):
        self.told_retired += 1

    def cancel_rows(self):
        self.cancelled = True

    def reply(self, key):
        self.ledger.replied(key)
        self._landed.set()


class World:
    """One run over four participants, unless told otherwise."""

    def __init__(self, root, nursery):
        self.root, self.air = root, Air()
        self.network = Network(nursery, root)
        self.servers: dict[str, Server] = {}
        self.events: list[object] = []
        self.outcomes: list[object] = []

    async def start(self, *, kinds=KINDS, run="r1", epoch=1, timeout_s=300.0, grace_s=120.0):
        for kind in kinds:
            await self.restart_server(kind)
        self.client = control_client(TOKEN, self.network)
        await self.take_over(run=run, epoch=epoch, timeout_s=timeout_s, grace_s=grace_s)

    async def take_over(self, *, run="r1", epoch, timeout_s=300.0, grace_s=120.0):
        """A new collector over the same servers and directory."""
        self.air = Air()
        found = await discover(self.client, [Candidate(f"http://{host}") for host in self.servers])
        self.coordination = Coordination(
            [one.participant for one in found],
            run=run,
            epoch=epoch,
            lease_s=lease_s(timeout_s),
            restarted=self.air.ledger.tear,
        )
        await self.coordination.hello()
        self.taken_over: Exception | None = None
        self.store = Store(self.root, confirm=self._confirm)
        self.inbox = Inbox(grace_s, now=trio.current_time())
        self.crew = Crew(
            air=self.air,
            coordination=self.coordination,
            store=self.store,
            record=self.outcomes.append,
            run=run,
            output="o1",
            input_sha256="0" * 64,
            timeout_s=timeout_s,
            blocking=blocking,
            listener=self.events.append,
            clock=lambda: "2030-01-01T00:00:00Z",
            moment=trio.current_time,
        )
        self.network.heard.clear()
        self.network.sent.clear()

    def know(self, tried):
        """The highest attempts that earlier runs have used."""
        self.air.ledger = Ledger(tried)
        for participant in self.coordination.participants:
            participant.restarted = self.air.ledger.tear

    def _confirm(self):
        if self.taken_over is not None:
            raise self.taken_over

    async def restart_server(self, kind):
        """A new process: it knows nothing of before."""
        self.servers[kind] = Server(kind, "one")
        await self.network.mount(kind, self.servers[kind])

    def fly(self, task, *, busy=None):
        """A row is in flight on all servers; `busy`: the kind of the one that is in a step."""
        key = RowKey(task, 0)
        episode = self.air.ledger.start(key, str(key))
        for kind, server in self.servers.items():
            server.begin(episode, "a step is under way" if kind == busy else None)
        return episode

    async def take(self, *, timeout_s=300.0, stop=False):
        self.under_way = UnderWay(by=trio.current_time() + timeout_s, stop=stop)
        return await take_checkpoint(self.crew, self.under_way, "signal")

    async def command(self):
        return await command(self.crew, self.inbox)

    @property
    def latest(self):
        return read_latest(self.root)

    @property
    def on_disk(self):
        """The checkpoint that LATEST names, checked whole."""
        return read_whole(self.root / f"ckpt-{self.latest.sequence:06d}", named=self.latest).collection

    @property
    def phases(self):
        """Where each server stands, told by itself."""
        for server in self.servers.values():
            server.admission.end_expired_lease()
        return {
            kind: "closed" if server.admission.closed else "open" for kind, server in self.servers.items()
        }

    @property
    def all_open(self):
        return set(self.phases.values()) == {"open"} and self.air.gate.is_open

    @property
    def notes(self):
        return [event.text for event in self.events if isinstance(event, Note)]

    @property
    def ended(self):
        return [event.outcome for event in self.events if isinstance(event, CheckpointEnded)]


class Running:
    """The controller at work in the background; `ended` when it has."""

    def __init__(self, here, nursery):
        self.here, self.ended = here, None
        nursery.start_soon(self._run)

    async def _run(self):
        self.ended = await self.here.command()


@asynccontextmanager
async def world(root, **settings):
    async with trio.open_nursery() as nursery:
        one = World(root, nursery)
        await one.start(**settings)
        try:
            yield one
        finally:
            nursery.cancel_scope.cancel()


async def blocking(work):
    """Simulated time has no threads; as with one, what has begun is not cancelled."""
    await trio.lowlevel.checkpoint_if_cancelled()
    work()
