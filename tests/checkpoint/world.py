"""A run and its participants in one process: real control planes, a network that lies, simulated time."""

from contextlib import asynccontextmanager

import httpx
import msgspec
import trio

from tests.participant.harness import inline
from tests.participant.states import records_of
from triocollect.checkpoint.controller import command
from triocollect.checkpoint.coordination import Coordination, lease_s
from triocollect.checkpoint.crew import Crew, UnderWay
from triocollect.checkpoint.discovery import Candidate, control_client, discover
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.ladder import read_latest
from triocollect.checkpoint.store import Store
from triocollect.checkpoint.taking import take_checkpoint
from triocollect.events import CheckpointEnded, Note
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.participant import (
    Admission,
    ControlPlane,
    Participant,
    decode_state,
    episode_of,
)
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Blocker, PrepareReport

TOKEN = "s3cret"
KINDS = ("environment", "model", "agent", "resources")


class Server(Participant[Record]):
    """Holds a number for each episode. An episode is at a boundary unless `busy`; `restarts` are reported."""

    mode = "exported"

    def __init__(self, kind, instance):
        super().__init__(kind, instance, Admission(), Record)
        self.held: dict[EpisodeId, object] = {}
        self.busy: dict[EpisodeId, str] = {}
        self.restarts: list[EpisodeId] = []
        self.stopped: list[EpisodeId] = []
        self.unclaimed: set[EpisodeId] = set()
        self.counts: dict[str, int] = {}
        self.has_served = False
        self.stop_waits: trio.Event | None = None
        self.refuses_install: Exception | None = None
        self.forgets_to_install: EpisodeId | None = None

    def begin(self, episode, why=None):
        """It is at work on an episode: at a boundary, or in a step that has to end before a cut."""
        self.held.setdefault(episode, 0)
        self.has_served = True
        if why is not None:
            self.busy[episode] = why

    def at_boundary(self, episode):
        del self.busy[episode]
        self.admission.changed()

    def report(self):
        blockers = tuple(Blocker(one.capture_key, why) for one, why in self.busy.items())
        restarts = tuple(one.capture_key for one in self.restarts)
        return PrepareReport(
            blockers=blockers, blocker_count=len(blockers), restarts=restarts, counts=self.counts
        )

    def export(self, scope):
        return records_of(self.kind, self.held, scope)

    async def install(self, records, becomes):
        if self.refuses_install is not None:
            raise self.refuses_install
        self.held = {becomes[episode_of(one)]: decode_state(one.state) for one in records}
        self.held.pop(self.forgets_to_install, None)
        self.unclaimed = set(self.held)
        return list(self.held)

    async def discard(self, keep):
        for episode in self.unclaimed - (keep or frozenset()):
            del self.held[episode]
        self.unclaimed &= keep or frozenset()

    async def stop(self, episodes):
        if self.stop_waits is not None:
            await self.stop_waits.wait()
        self.stopped += episodes
        for episode in episodes:
            self.held.pop(episode, None)

    def forget(self, rollout_ids):
        for episode in [one for one in self.held if one.rollout_id in rollout_ids]:
            del self.held[episode]

    def served(self):
        return self.has_served

    def restored_pending(self):
        return len(self.unclaimed)


class Lie:
    """A participant's own answer, changed by a function of its fields."""

    def __init__(self, of):
        self.of = of


class Network(httpx.AsyncBaseTransport):
    """Routes by host name, and lies.

    `faults` has, for a "host route", what its next calls meet: "unreachable", "reply lost", "stuck", a
    function to call first, a Response to give instead, a Lie; None lets one through.
    """

    def __init__(self, nursery, root):
        self._nursery, self._root = nursery, root
        self.planes: dict[str, httpx.AsyncBaseTransport] = {}
        self.heard: list[str] = []
        self.sent: list[tuple[str, dict[str, object]]] = []
        self.faults: dict[str, list[object]] = {}

    async def mount(self, host, server):
        """Start it, or put a new process in its place."""
        plane = ControlPlane(_app, server, server.admission, token=TOKEN, root=self._root, in_thread=inline)
        started = trio.Event()
        self._nursery.start_soon(_lifespan, plane, started)
        await started.wait()
        self.planes[host] = httpx.ASGITransport(plane)

    async def handle_async_request(self, request):
        call = f"{request.url.host} {request.url.path.rpartition('/')[2]}"
        self.heard.append(call)
        if request.method == "POST":
            self.sent.append((call, msgspec.json.decode(request.content)))
        pending = self.faults.get(call)
        fault = pending.pop(0) if pending else None
        if callable(fault):
            answer = fault()
            if answer is not None:
                await answer
        if isinstance(fault, httpx.Response):
            return fault
        if fault == "unreachable" or request.url.host not in self.planes:
            raise httpx.ConnectError("nobody there", request=request)
        if fault == "stuck":
            await trio.sleep_forever()
        response = await self.planes[request.url.host].handle_async_request(request)
        if isinstance(fault, Lie):
            return httpx.Response(200, json=fault.of(msgspec.json.decode(await response.aread())))
        if fault == "reply lost":
            raise httpx.ReadError("the connection broke", request=request)
        return response


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


async def _lifespan(app, started):
    async def receive():
        if started.is_set():
            await trio.sleep_forever()
        return {"type": "lifespan.startup"}

    async def send(_message):
        started.set()

    await app({"type": "lifespan"}, receive, send)


async def _app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
    else:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"nothing here"})
