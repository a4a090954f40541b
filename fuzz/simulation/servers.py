"""The real servers of an embedded deployment as processes of one machine, any of which may die."""

import functools
from functools import partial

import msgspec
import trio
from attrs import evolve

from fuzz.simulation.crews import Crew
from fuzz.simulation.network import Network
from fuzz.simulation.probe import Probe
from fuzz.simulation.processes import Process, inline
from fuzz.simulation.worker import Cutting, manner_of
from triocollect.config.settings import ServersConfig
from triocollect.deployment.plan import Address, Plan, plan_for, settings_of
from triocollect.servers.agent import app as agent
from triocollect.servers.environment import app as environment
from triocollect.servers.inference import app as inference
from triocollect.servers.model import app as model
from triocollect.servers.resources import app as resources

CAPTURED, UNCAPTURED = "counter", "numeric"  # the names of two resources servers, both counters


_TAKEN = {
    "environment": (environment.EnvironmentSettings, environment.build_app),
    "agent": (agent.AgentSettings, agent.build_app),
    "model": (model.ModelSettings, partial(model.build_app, in_thread=inline)),
    "resources": (resources.ResourcesSettings, lambda settings, _reach: resources.build_app(settings)),
    "inference": (
        inference.InferenceSettings,
        lambda settings, _reach: inference.build_app(settings, inline),
    ),
}


class Server(Process):
    """One server that is one process."""

    def __init__(self, name, build, network: Network):
        super().__init__(name, build, network)
        for middleware in self.app.user_middleware:
            middleware.kwargs["in_thread"] = inline
        hooks = getattr(self.app.state, "hooks", None)
        self.probe = None if hooks is None else Probe(hooks.admission, lambda: [hooks])


class Servers:
    """A deployment for rows of the counter. `workers`: how many a server has, where it has more than one."""

    def __init__(self, network: Network, checkpoints, effects_dir, story, workers):
        self._network = network
        self._sources = [CAPTURED, UNCAPTURED] if story.mixed else [CAPTURED]
        self.processes: dict[str, Process] = {}
        self._services: trio.Nursery | None = None
        self._effects_dir, self._workers, self._manner = effects_dir, workers, manner_of(story)
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

    def restart(self, name, worker=0, away_s=0.0):
        """The process dies, and another one takes its place at once; whether there was one.

        Of a `worker` that is not all of the server the place is empty for so long.
        """
        if (running := self.processes.get(name)) is None or not running.stands:
            return False
        if worker:
            return isinstance(running, Crew) and running.lose(worker, away_s)
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
        build, size = partial(self._build, process), self._workers.get(process.name, 1)
        if size == 1:
            made = Server(process.name, build(None), self._network)
        else:
            place = self._plan.control_token, self._plan.checkpoint_dir
            made = Crew(process.name, size, build, self._network, place)
        self.processes[process.name] = made
        return made

    def _build(self, process, worker):
        """What builds its application, or that of one `worker`."""
        addresses = {one.name: Address(host_of(one.name), 80) for one in self._plan.processes}
        settings = settings_of(self._plan, process, addresses)
        if process.name == UNCAPTURED:  # a counter too, with the same account
            settings |= {"source": CAPTURED, "effects_file": str(self._effects_dir / f"{CAPTURED}.jsonl")}
        if worker is not None:
            which = {"number": worker, "of": self._workers[process.name]}
            settings |= {"checkpoint": {**settings["checkpoint"], "worker": which}}
        kind, build_app = _TAKEN[process.kind]
        decoded = msgspec.json.decode(msgspec.json.encode(settings), type=kind)

        def build(reach):
            app = build_app(decoded, reach)
            if process.name == UNCAPTURED:
                app.state.hooks.mode = "restart_only"
            return Cutting(app, self._manner) if process.kind == "inference" else app

        return build

    @property
    def participants(self):
        """A look into each that takes part, by name."""
        return {name: process.probe for name, process in self.processes.items() if process.probe is not None}

    @property
    def environment(self):
        """A look into the one that rows are sent to; None while it was never there."""
        process = self.processes.get("environment")
        return None if process is None else process.probe


@functools.cache
def host_of(name):
    """Where a process is."""
    return name.replace("_", "-")
