"""Where rows go: decided once for all rows that name the same. Pure; the rules are those of Gym 0.7.0."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.errors import UsageError
from triocollect.rows.repeats import Repeats
from triocollect.rows.types import Route

AgentOf = Callable[[str], str | None]

# agent_ref.name, task_source, taskset of a task, _ng_environment_server, and whether it is a task. A plain
# tuple: one is made for every row.
Names = tuple[str | None, str | None, str | None, str | None, bool]


class Agents(NamedTuple):
    """Who knows agents that the data does not name; None: such rows stay as they are.

    Both raise ConfigError for a name that they cannot place.
    """

    of_source: AgentOf | None = None  # by task_source
    of_server: AgentOf | None = None  # by environment server


class Copy(msgspec.Struct):
    """One agent's share of a row."""

    agent: str | None  # takes the place of the row's; None: it stays
    found: str | None  # an agent that the data does not name, to be named last
    repeats: int
    route: Route
    rows: int = 0  # how many were made so far


class Way(msgspec.Struct):
    """What becomes of rows that name the same."""

    agent: str | None  # from agent_map
    server: str | None  # the environment server, where it is settled now
    copies: tuple[Copy, ...]


class Ways:
    """All ways of a run, made as they are asked for."""

    def __init__(self, settings: InputConfig, routing: RoutingConfig, agents: Agents) -> None:
        self._settings, self._routing, self._agents = settings, routing, agents
        self._known: Final[dict[Names, Way]] = {}
        self._refused: Final[dict[Names, UsageError]] = {}
        self.repeats: Final = Repeats(settings.num_repeats)
        self.overridden: Final[set[tuple[str, str]]] = set()  # (agent in the data, agent in its place)

    def of(self, names: Names) -> Way:
        """Raises UsageError for rows that cannot go anywhere, ConfigError where a look-up refuses."""
        return self._known.get(names) or self._judge(names)

    @property
    def routes(self) -> dict[Route, int]:
        """How many rows were made for each route."""
        counts: dict[Route, int] = {}
        for way in self._known.values():
            for copy in way.copies:
                counts[copy.route] = counts.get(copy.route, 0) + copy.rows
        return counts

    def _judge(self, names: Names) -> Way:
        """Once for all rows that name the same; a refusal stays what it was."""
        if names in self._refused:
            raise self._refused[names].with_traceback(None)
        try:
            way = self._known[names] = self._make(names)
        except UsageError as refusal:
            self._refused[names] = refusal
            raise
        return way

    def _make(self, names: Names) -> Way:
        agent, source, taskset, _, _ = names
        server = self._server_for(taskset)
        if server is not None:
            basis: str | None = taskset or source or server
            return Way(None, server, (self._copy(names, agent, None, basis, server),))
        basis = source if agent is None else agent
        mapped = self._mapped(agent, source)
        stays = agent if mapped is None else mapped
        targets = self._targets(basis, stays)
        return Way(
            mapped, None, tuple(self._copy(names, stays, target, basis, names[3]) for target in targets)
        )

    def _server_for(self, taskset: str | None) -> str | None:
        """The environment server that is settled now; None for a row that goes by its agent."""
        routing = self._routing
        if taskset is not None:
            if taskset not in routing.environment_server_routes:
                raise UsageError(
                    f"environment_server_routes has no environment server for taskset {taskset!r}"
                )
            return routing.environment_server_routes[taskset]
        if routing.mode == "taskset":
            raise UsageError(
                "taskset routing takes only rows with task_id.taskset and task_input; "
                "use environment_routing_mode=agent to mix them with flat rows"
            )
        return routing.environment_server_name if routing.mode == "legacy" else None

    def _mapped(self, agent: str | None, source: str | None) -> str | None:
        """Where `agent_map` sends a row: by its agent, else by its source, else by `_default`."""
        agent_map = self._settings.agent_map
        for key in (agent, source, "_default"):
            if key is not None and key in agent_map:
                if agent is not None and agent != agent_map[key]:
                    self.overridden.add((agent, agent_map[key]))
                return agent_map[key]
        return None

    def _targets(self, basis: str | None, agent: str | None) -> Sequence[str | None]:
        """The agents that get a copy each; None where task_source will tell. fan_out goes by the data."""
        if basis is not None and basis in self._settings.fan_out:
            return self._settings.fan_out[basis]
        if agent is None and basis is None:
            raise UsageError(
                "No agent specified: give --agent (or agent_map with a _default), "
                "or put agent_ref or task_source into the data"
            )
        return (agent,)

    def _copy(
        self, names: Names, stays: str | None, target: str | None, basis: str | None, server: str | None
    ) -> Copy:
        _, source, taskset, _, is_task = names
        agent = stays if target is None else target
        found = self._found(source, server) if agent is None and taskset is None else None
        return Copy(
            agent=None if agent == stays else agent,
            found=found,
            repeats=self.repeats.of(target, basis),
            route=Route(server, found if agent is None else agent, source, taskset, is_task),
        )

    def _found(self, source: str | None, server: str | None) -> str | None:
        if server is not None:
            return self._agents.of_server(server) if self._agents.of_server else None
        return self._agents.of_source(source) if self._agents.of_source and source is not None else None
