"""The real servers of an embedded deployment as processes of one machine, any of which may die."""

import msgspec
import trio
from attrs import evolve

from fuzz.simulation.network import Network
from triocollect.config.settings import ServersConfig
from triocollect.deployment.plan import Address, Plan, plan_for, settings_of
from triocollect.servers.agent import app as agent
from triocollect.servers.environment import app as environment
from triocollect.servers.inference import app as inference
from triocollect.servers.model import app as model
from triocollect.servers.resources import app as resources
from triocollect.transport import Transport

CAPTURED, UNCAPTURED = "counter", "numeric"  # the names of two resources servers, both counters
KINDS = {
    "environment": (environment.EnvironmentSettings, environment.build_app),
    "agent": (agent.AgentSettings, agent.build_app),
    "model": (model.ModelSettings, model.build_app),
}


async def inline(work):
    """What blocks is done at once: simulated time has no threads."""
    await trio.lowlevel.checkpoint()
    return work()


class Process:
    """One server process. When it dies everything it had is gone: memory, connections, work under way."""

    def __init__(self, name, settings, kind, network: Network):
        self.name, self.host, self._network = name, host_of(name), network
        self._transports: list[Transport] = []
        self._dead = False
        self.stands = False
        if kind == "resources":
            app = resources.build_app(msgspec.json.decode(settings, type=resources.ResourcesSettings))
        elif kind == "inference":
            app = inference.build_app(msgspec.json.decode(settings, type=inference.InferenceSettings))
        else:
            settings_type, build_app = KINDS[kind]
            app = build_app(msgspec.json.decode(settings, type=settings_type), self._reach)
        self.app = app
        if name == UNCAPTURED:
            self.hooks.mode = "restart_only"
        for middleware in app.user_middleware:
            middleware.kwargs["in_thread"] = inline

    @property
    def hooks(self):
        """Of a participant."""
        return self.app.user_middleware[0].kwargs["hooks"] if self.app.user_middleware else None

    async def run(self, task_status=trio.TASK_STATUS_IGNORED):
        try:
            async with trio.open_nursery() as self._tasks:
                self._tasks.start_soon(self._lifespan, task_status)
        finally:
            self._dead = True
            if self._network.hosts.get(self.host) == self._accept:
                del self._network.hosts[self.host]
            with trio.CancelScope(shield=True):  # a cancelled close would leave the next ones open
                for transport in self._transports:
                    await transport.aclose()

    def die(self):
        self._dead, self.stands = True, False
        self._tasks.cancel_scope.cancel()

    async def _lifespan(self, task_status):
        messages = iter([{"type": "lifespan.startup"}])

        async def receive():
            if (message := next(messages, None)) is None:
                await trio.sleep_forever()
            return message

        async def send(message):
            if message["type"] != "lifespan.startup.complete":
                return  # it was killed, and says so
            self._network.hosts[self.host] = self._accept
            self.stands = True
            task_status.started()

        await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

    def _accept(self, stream):
        self._tasks.start_soon(self._network.serve, self.app, self.host, stream)

    def _reach(self, _base_url):
        transport = Transport(connect=self._connect)
        self._transports.append(transport)
        return transport

    async def _connect(self, host, port, tls):
        if self._dead:
            raise ConnectionRefusedError("dead processes do not speak")
        return await self._network.connect(host, port, tls)


class Servers:
    """A deployment for rows of the counter."""

    def __init__(self, network: Network, effects_dir, story):
        self._network, self._effects_dir = network, effects_dir
        self._rate, self._sources = story.tokens_per_s, [CAPTURED, UNCAPTURED] if story.mixed else [CAPTURED]
        self.processes: dict[str, Process] = {}
        self._plan: Plan | None = None
        self._services: trio.Nursery | None = None

    async def bring_up(self, config, _rows, services, control_token):
        """See `whereto.Deployment`."""
        self._services = services
        self._plan = evolve(
            plan_for(self._sources, ServersConfig()),
            checkpoint_dir=config.checkpoint.dir.absolute(),
            control_token=control_token,
            effects_dir=self._effects_dir,
            tokens_per_s=self._rate,
        )
        for process in self._plan.processes:
            await services.start(self._new(process).run)
        return "http://environment:80"

    def restart(self, name):
        """The process dies, and another one takes its place at once."""
        if (running := self.processes.get(name)) is None or not running.stands:
            return
        running.die()
        process = next(one for one in self._plan.processes if one.name == name)
        self._services.start_soon(self._new(process).run)

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
        return {name: process.hooks for name, process in self.processes.items() if process.hooks}


def host_of(name):
    return name.replace("_", "-")
