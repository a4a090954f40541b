"""Which server gets a row, and whether all rows can be sent at all. Pure.

Gym 0.7.0: a row goes to an environment server, named by the row itself, by its taskset, by the routing mode,
or by its agent, which exactly one environment server must front. A config without any environment server is
that of an older Gym, where rows go to the agent itself and records say nothing about servers.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from triocollect.config.settings import RoutingConfig
from triocollect.errors import ConfigError
from triocollect.gym.bodies import taskset_of
from triocollect.gym.config_tree import GymConfig, Server
from triocollect.gym.sources import agent_of_source, did_you_mean, rejected_pairing
from triocollect.rows.types import Route, Row


class Target(msgspec.Struct, frozen=True):
    """Where a row is sent: `url` is a base URL. `server` and `implementation` are stamped where known."""

    url: str
    server: str | None = None
    implementation: str | None = None


class Scorer(msgspec.Struct, frozen=True):
    """Who aggregates a record: `target` answers /aggregate_metrics; `agent` is credited, if known."""

    target: Target
    agent: str | None = None


class Routing(Protocol):
    """What the collector asks of a routing: `Router` where a head is known, else `SingleServer`."""

    def check(self, routes: Iterable[Route]) -> None: ...
    def target(self, row: Row) -> Target: ...
    def scorer(self, server: str | None, agent: str | None) -> Scorer: ...
    def urls(self) -> tuple[str, ...]: ...
    def below(self, target: Target) -> Mapping[str, str]: ...


class SingleServer:
    """Everything goes to one address (`--environment-url`); no head is asked, nothing is stamped."""

    def __init__(self, url: str) -> None:
        self._target: Final = Target(url.rstrip("/"))

    def check(self, routes: Iterable[Route]) -> None:
        """One server takes every row."""

    def target(self, row: Row) -> Target:  # noqa: ARG002  # the same for all rows
        """The one server."""
        return self._target

    def scorer(self, server: str | None, agent: str | None) -> Scorer:  # noqa: ARG002  # there is one
        """The one server."""
        return Scorer(self._target, agent)

    def urls(self) -> tuple[str, ...]:
        """The one server."""
        return (self._target.url,)

    def below(self, target: Target) -> Mapping[str, str]:  # noqa: ARG002  # nobody says
        """What is behind the one server is not known."""
        return {}


class Router:
    """Routes rows by the head's config. `allow_unsupported_pairing` is the waiver from the environment."""

    def __init__(
        self, config: GymConfig, routing: RoutingConfig, *, allow_unsupported_pairing: bool = False
    ) -> None:
        self._config, self._routing = config, routing
        self._pairing_waived: Final = bool(
            allow_unsupported_pairing
            or routing.allow_unsupported_pairing
            or config.settings.get("allow_unsupported_pairing")
        )
        self._environments: Final = config.of_kind("environment_servers")
        self._agents: Final = config.of_kind("responses_api_agents")
        self._fronts: Final[dict[str, list[Server]]] = {}
        for server in self._environments.values():
            for agent in server.agents:
                self._fronts.setdefault(agent, []).append(server)
        self._targets: Final[dict[Route, Target]] = {}  # follows names, of which there are few

    def agent_of_source(self, source: str) -> str:
        """The agent for rows that name only a `task_source`. Raises ConfigError."""
        return agent_of_source(self._config, source)

    def agent_of_server(self, name: str) -> str | None:
        """The agent that a flat row without one is credited to when it is sent to this environment server."""
        server = self._environments.get(name)
        return None if server is None else server.attributed

    def urls(self) -> tuple[str, ...]:
        """The base URLs of all servers of the config, each once."""
        found = (server.url for server in self._config.servers.values())
        return tuple(dict.fromkeys(url for url in found if url is not None))

    def below(self, target: Target) -> Mapping[str, str]:
        """Base URLs by name of the servers that hold a part of a rollout which is sent there.

        They are the agents that an environment server fronts, and the resources servers of them all.
        """
        known = self._config.servers
        first = [one for one in known.values() if one.url == target.url]
        first = [one for one in first if target.server in {None, one.name}]
        agents = [known[name] for one in first for name in one.agents if name in known]
        named = [one.resources for one in (*first, *agents)]
        holders = [*agents, *(known[name] for name in named if name in known)]
        return {one.name: one.url for one in holders if one.url is not None}

    def check(self, routes: Iterable[Route]) -> None:
        """Raises one ConfigError with every reason why some row cannot be sent; sends nothing."""
        problems: dict[str, None] = {}
        for route in routes:
            try:
                server = self._destination(route)
                _address(server)
                found = self._mismatches(route, server)
            except ConfigError as fault:
                found = list(fault.problems)
            problems.update(dict.fromkeys(found))
        if problems:
            raise ConfigError(*problems)

    def target(self, row: Row) -> Target:
        """Where this row goes. Raises ConfigError where `check` would have."""
        agent, source = row.agent, None
        if agent is None and row.task_source is not None:
            source = msgspec.json.decode(row.task_source, type=str | None)
        route = Route(row.environment_server, agent, source, taskset_of(row), row.is_task)
        if (target := self._targets.get(route)) is None:
            target = self._targets[route] = self._target(self._destination(route))
        return target

    def scorer(self, server: str | None, agent: str | None) -> Scorer:
        """Who aggregates a record stamped with `server`, or else of `agent`. Raises ConfigError."""
        if server is not None and self._environments and server not in self._environments:
            raise ConfigError(
                f"records are stamped with environment server {server!r}, which is not in the running config"
                f"{did_you_mean(server, self._environments)}; aggregate with the config that produced them"
            )
        found = self._destination(Route(server if self._environments else None, agent))
        return Scorer(self._target(found), found.attributed if agent is None else agent)

    def _destination(self, route: Route) -> Server:
        name = route.server
        if name is None and route.is_task and route.taskset:
            name = self._routing.environment_server_routes.get(route.taskset)
            if name is None:
                raise ConfigError(
                    f"no environment server route for taskset {route.taskset!r}: "
                    "set environment_server_routes"
                )
        elif name is None and self._routing.mode == "taskset":
            raise ConfigError(
                "taskset routing takes only rows with task_id.taskset and task_input; "
                "environment_routing_mode=agent takes flat rows as well"
            )
        elif name is None and self._routing.mode == "legacy":
            name = self._routing.environment_server_name
            if name is None:
                raise ConfigError("environment_routing_mode=legacy needs environment_server_name")
        if name is None:
            return self._by_agent(route)
        server = self._environments.get(name)
        if server is None:
            raise ConfigError(
                f"environment server {name!r} is not in the running config"
                f"{did_you_mean(name, self._environments)}"
            )
        return server

    def _by_agent(self, route: Route) -> Server:
        agent = self._known_agent(route)
        if not self._environments:
            return self._agents[agent]
        match self._fronts.get(agent, []):
            case [server]:
                return server
            case []:
                raise ConfigError(f"agent {agent!r} has no environment server in front of it")
            case several:
                names = ", ".join(sorted(server.name for server in several))
                raise ConfigError(
                    f"agent {agent!r} is fronted by several environment servers ({names}); choose one with "
                    "environment_routing_mode=legacy and environment_server_name, or route by taskset"
                )

    def _known_agent(self, route: Route) -> str:
        agent = route.agent
        if agent is None and route.source is not None:
            agent = self.agent_of_source(route.source)
        if agent is None:
            raise ConfigError("some rows name neither an agent nor a task_source; name one with --agent")
        if agent not in self._agents:
            known = agent in self._config.servers or agent in self._config.settings
            hint = " (it is there, but is no agent)" if known else did_you_mean(agent, self._agents)
            raise ConfigError(
                f"agent {agent!r} is not in the running config{hint}; "
                "run its config too, or route its rows elsewhere with +agent_map or --agent"
            )
        return agent

    def _mismatches(self, route: Route, server: Server) -> list[str]:
        """What is wrong although the row has a destination."""
        stamped = server.kind == "environment_servers" and (
            route.server is not None or bool(route.taskset) or self._routing.mode == "legacy"
        )
        if not stamped:
            agent, source = self._known_agent(route), route.source
        else:
            problems = _misfits(route, server)
            if problems or server.attributed is None:
                return problems
            agent = self._known_agent(Route(agent=server.attributed))
            source = server.resources
        return [] if self._pairing_waived else rejected_pairing(self._config, agent, source)

    def _target(self, server: Server) -> Target:
        url = _address(server)
        if server.kind == "environment_servers":
            return Target(url, server.name, server.implementation)
        return Target(url)


def _misfits(route: Route, server: Server) -> list[str]:
    """Where a row that is sent to a named environment server says something else than that server does."""
    problems = []
    if route.agent is not None and server.agents and route.agent not in server.agents:
        problems.append(
            f"agent {route.agent!r} is not an agent of environment server {server.name!r} "
            f"({', '.join(server.agents)})"
        )
    if route.source is not None and server.resources is not None and route.source != server.resources:
        problems.append(
            f"task_source {route.source!r} is not the resources server of environment server "
            f"{server.name!r} ({server.resources})"
        )
    return problems


def _address(server: Server) -> str:
    if server.url is None:
        raise ConfigError(server.url_fault)
    return server.url
