"""The environment server's routes: /run, /aggregate_metrics, and the embedded head."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

import msgspec
from msgspec import UNSET
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triocollect.metrics import aggregate
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code
from triocollect.protocol.values import JsonObject
from triocollect.servers.environment.drive import Broken, drive
from triocollect.servers.environment.episode import Episode, SourcePeers
from triocollect.servers.environment.orders import (
    MAX_REASON,
    EpisodeReply,
    Failure,
    Order,
    parse_order,
)
from triocollect.servers.peers import Connect, Peer, network
from triocollect.servers.replies import attended, broken, json_reply, refusal, under_way


class SourceAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who serves the rows of one source: base URLs, and the agent's name."""

    agent: str
    agent_url: str
    resources_url: str


class EnvironmentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sources that this process serves, and the head's YAML text."""

    sources: dict[str, SourceAddress]
    head: str


class _Records(msgspec.Struct, frozen=True):
    verify_responses: list[dict[str, object]]


class EnvironmentServer:
    """All episodes of this process, each at its latest boundary."""

    def __init__(self, sources: Mapping[str, SourcePeers], head: str) -> None:
        self._sources: Final = sources
        self._head: Final = head
        self.episodes: Final[dict[EpisodeId, Episode]] = {}

    async def run(self, request: Request) -> Response:
        """POST /run: one episode, from its input to its record."""
        body = await request.body()
        try:
            order = parse_order(body, self._sources)
        except (ValueError, RecursionError) as error:
            return refusal(Code.BAD_REQUEST, str(error))
        name = order.episode
        if name in self.episodes:
            return under_way(name)
        self.episodes[name] = Episode(order=order)
        try:
            return await attended(request, lambda: self._fly(order))
        finally:
            del self.episodes[name]

    async def aggregate(self, request: Request) -> Response:
        """POST /aggregate_metrics: Gym 0.7.0's metrics over `verify_responses`."""
        body = await request.body()
        try:
            records = msgspec.json.decode(body, type=_Records).verify_responses
        except (msgspec.MsgspecError, RecursionError) as error:
            return refusal(Code.BAD_REQUEST, str(error))
        return json_reply(aggregate(cast("list[JsonObject]", records)))  # JSON is what was decoded

    async def head(self, _request: Request) -> Response:
        """GET /global_config_dict_yaml: a JSON string that holds YAML, as Gym 0.7.0's head answers."""
        return json_reply(self._head)

    async def _fly(self, order: Order) -> Response:
        episode = self.episodes[order.episode]
        match await drive(episode, self._sources[order.source], self._at_boundary):
            case Broken() as end:
                return _failed(order, end)
            case Episode(record=record):
                assert record is not None
                if order.task_id is UNSET:
                    return json_reply(record)
                return json_reply(EpisodeReply(order.episode, order.task_id, result=record))

    async def _at_boundary(self, episode: Episode) -> None:
        self.episodes[episode.order.episode] = episode


def build_app(settings: EnvironmentSettings, connect: Connect = network) -> Starlette:
    """The environment server as an ASGI application."""
    agents = {one.agent_url: Peer("agent", one.agent_url, connect) for one in settings.sources.values()}
    sources = {
        source: SourcePeers(
            agent_name=one.agent,
            agent=agents[one.agent_url],
            resources=Peer(source, one.resources_url, connect),
        )
        for source, one in settings.sources.items()
    }
    server = EnvironmentServer(sources, settings.head)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        for each in (*agents.values(), *(around.resources for around in sources.values())):
            await each.aclose()

    routes = [
        Route("/run", server.run, methods=["POST"]),
        Route("/aggregate_metrics", server.aggregate, methods=["POST"]),
        Route("/global_config_dict_yaml", server.head),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def _failed(order: Order, end: Broken) -> Response:
    if order.task_id is UNSET:
        return broken(end.reason)
    reason = end.reason if len(end.reason) <= MAX_REASON else end.reason[: MAX_REASON - 1] + "…"
    failure = Failure(reason, terminal=not end.passing, stage=end.stage)
    return json_reply(EpisodeReply(order.episode, order.task_id, failure=failure))
