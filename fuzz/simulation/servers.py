"""The real servers of an embedded deployment as processes of one machine, any of which may die."""

import contextvars
import functools

import msgspec
import trio
from attrs import evolve

from fuzz.simulation.calls import Calls
from fuzz.simulation.files import OWNER
from fuzz.simulation.network import Network
from fuzz.simulation.probe import Probe
from triocollect.config.settings import ServersConfig
from triocollect.deployment.plan import Address, Plan, plan_for, settings_of
from triocollect.servers.agent import app as agent
from triocollect.servers.environment import app as environment
from triocollect.servers.inference import app as inference
from triocollect.servers.model import app as model
from triocollect.servers.resources import app as resources

CAPTURED, UNCAPTURED = "counter", "numeric"  # the names of two resources servers, both counters


async def inline(work):
    """What blocks is done at once: simulated time has no threads."""
    await trio.lowlevel.checkpoint()
    return work()


KINDS = {
    "environment": (environment.EnvironmentSettings, environment.build_app),
    "agent": (agent.AgentSettings, agent.build_app),
    "model": (model.ModelSettings, functools.partial(model.build_app, in_thread=inline)),
}


class Process:
    """One server process. When it dies everything it had is gone: memory, connections, work under way."""

    def __init__(self, name, settings, kind, network: Network):
        self.name, self.host, self._network = name, host_of(name), network
        self.dead = self.stands = False
        self._ended = trio.Event()
        if kind == "resources":
            app = resources.build_app(msgspec.json.decode(settings, type=resources.ResourcesSettings))
        elif kind == "inference":
            decoded = msgspec.json.decode(settings, type=inference.InferenceSettings)
            app = inference.build_app(decoded, inline)
        else:
            settings_type, build_app = KINDS[kind]
            app = build_app(msgspec.json.decode(settings, type=settings_type), self._reach)
        self.app = app
        self.probe = Probe(self._hooks) if app.user_middleware else None
        if name == UNCAPTURED:
            self._hooks.mode = "restart_only"
        for middleware in app.user_middleware:
            middleware.kwargs["in_thread"] = inline

    @property
    def _hooks(self):
        return self.app.user_middleware[0].kwargs["hooks"]

    async def run(self, task_status=trio.TASK_STATUS_IGNORED):
        """Until it dies, or whoever owns it ends."""
        OWNER.set(self)
        self._context = contextvars.copy_context()
        try:
            async with trio.open_nursery() as whole:
                whole.start_soon(self._lifespan, task_status)
                try:
                    async with trio.open_nursery() as self._tasks:
                        await trio.sleep_forever()
                finally:
                    self._ended.set()
        finally:
            self.dead, self.stands = True, False
            if self._network.hosts.get(self.host) is self:
                del self._network.hosts[self.host]

    def start(self, work, *args):
        """Work that ends with it, whoever began it. Raises RuntimeError."""
        self._context.run(self._tasks.start_soon, work, *args)

    def die(self):
        """At once."""
        self.dead, self.stands = True, False
        self._tasks.cancel_scope.cancel()

    async def _lifespan(self, task_status):
        """Shielded, as it knows of no cancelling: who is dead says nothing any more, and changes nothing."""
        messages = iter([{"type": "lifespan.startup"}])

        async def receive():
            if (message := next(messages, None)) is None:
                await self._ended.wait()
                return {"type": "lifespan.shutdown"}
            return message

        async def send(message):
            if message["type"] != "lifespan.startup.complete":
                return
            self._network.hosts[self.host] = self
            self.stands = True
            task_status.started()

        with trio.CancelScope(shield=True):
            await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

    def _reach(self, _base_url):
        return Calls(self._network, lambda: self.dead)


class Servers:
    """A deployment for rows of the counter."""

    def __init__(self, network: Network, checkpoints, effects_dir, story):
        self._network = network
        self._sources = [CAPTURED, UNCAPTURED] if story.mixed else [CAPTURED]
        self.processes: dict[str, Process] = {}
        self._services: trio.Nursery | None = None
        self._effects_dir = effects_dir
        self._plan: Plan = evolve(
            plan_for(self._sources, ServersConfig()),
            checkpoint_dir=checkpoints,
            effects_dir=effects_dir,
            tokens_per_s=story.tokens_per_s,
        )

    async def bring_up(self, _config, _rows, services, control_token):
        """See `whereto.Deployment`."""
        self._services = services
        self._plan = evolve(self._plan, control_token=control_token)
        for process in self._plan.processes:
            await services.start(self._new(process).run)
        return "http://environment:80"

    def restart(self, name):
        """The process dies, and another one takes its place at once; whether there was one."""
        if (running := self.processes.get(name)) is None or not running.stands:
            return False
        running.die()
        process = next(one for one in self._plan.processes if one.name == name)
        self._services.start_soon(self._new(process).run)
        return True

    def die(self):
        """All of them."""
        for process in self.processes.values():
            if process.stands:
                process.die()

    def _new(self, process):
        addresses = {one.name: Address(host_of(one.name), 80) for one in self._plan.processes}
        settings = settings_of(self._plan, process, addresses)
        if process.name == UNCAPTURED:  # a counter too, with the same account
            settings |= {"source": CAPTURED, "effects_file": str(self._effects_dir / f"{CAPTURED}.jsonl")}
        settings = msgspec.json.encode(settings)
        made = self.processes[process.name] = Process(process.name, settings, process.kind, self._network)
        return made

    @property
    def participants(self):
        """A look into each that takes part, by name."""
        return {name: process.probe for name, process in self.processes.items() if process.probe is not None}


@functools.cache
def host_of(name):
    """Where a process is."""
    return name.replace("_", "-")
