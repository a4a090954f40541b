"""The environment server's routes: /run, /aggregate_metrics, and the embedded head."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triocollect.metrics import aggregate
from triocollect.participant import Admission, Work
from triocollect.protocol.identity import CONTINUED, sender_in
from triocollect.protocol.refusals import Code, Refusal
from triocollect.protocol.values import NOT_JSON, JsonObject
from triocollect.servers.environment.drive import Broken, drive
from triocollect.servers.environment.episode import Episode, SourcePeers
from triocollect.servers.environment.episodes import Episodes
from triocollect.servers.environment.run_requests import (
    MAX_REASON,
    EpisodeReply,
    Failure,
    RunRequest,
    parse_run,
)
from triocollect.servers.peers import Connect, Peer, network
from triocollect.servers.replies import attended, broken, json_reply, refusal, refused, retired
from triocollect.servers.taking_part import CheckpointSettings, instance_of, take_part
from triocollect.telemetry import bind_episode


class SourceAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who serves the rows of one source: base URLs, and the agent's name."""

    agent: str
    agent_url: str
    resources_url: str


class EnvironmentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sources that this process serves, and the head's YAML text.

    `checkpoint`: how it takes part in checkpoints; None: not at all.
    """

    sources: dict[str, SourceAddress]
    head: str
    checkpoint: CheckpointSettings | None = None


class _Records(msgspec.Struct, frozen=True):
    verify_responses: list[dict[str, object]]


class EnvironmentServer:
    """`/run`, the metrics of records, and the head's word."""

    def __init__(self, sources: Mapping[str, SourcePeers], settings: EnvironmentSettings) -> None:
        self._sources: Final = sources
        self._head: Final = settings.head
        self._named_only: Final = settings.checkpoint is not None
        self._admission: Final = Admission()
        self.episodes: Final = Episodes(instance_of(settings.checkpoint, "environment"), self._admission)

    async def run(self, request: Request) -> Response:
        """POST /run: one episode, from its input or from where a checkpoint has it, to its record."""
        body = await request.body()
        try:
            asked = replace(parse_run(body, self._sources), sender=sender_in(request.headers))
        except (ValueError, RecursionError) as error:
            return refusal(Code.BAD_REQUEST, str(error))
        bind_episode(asked.episode)
        if self._named_only and asked.nameless:
            return refusal(Code.ROLLOUT_ID_REQUIRED, "the row has neither _ng_rollout_id nor its indices")
        begun = self.episodes.begin(asked, continued=request.headers.get(CONTINUED) == "1")
        if isinstance(begun, Refusal):
            return refused(begun)
        try:
            with self._admission.enter(asked.episode, "starting") as work:
                return await attended(request, self._admission, lambda: self._fly(begun, work))
            return retired(asked.episode, self._admission)
        finally:
            self.episodes.end(asked.episode)

    async def aggregate(self, request: Request) -> Response:
        """POST /aggregate_metrics: Gym 0.7.0's metrics over `verify_responses`."""
        body = await request.body()
        try:
            records = msgspec.json.decode(body, type=_Records).verify_responses
        except NOT_JSON as error:
            return refusal(Code.BAD_REQUEST, str(error))
        return json_reply(aggregate(cast("list[JsonObject]", records)))  # JSON is what was decoded

    async def head(self, _request: Request) -> Response:
        """GET /global_config_dict_yaml: a JSON string that holds YAML, as Gym 0.7.0's head answers."""
        return json_reply(self._head)

    async def _fly(self, episode: Episode, work: Work) -> Response:
        asked = episode.asked
        match await drive(episode, self._sources[asked.source], work, self.episodes.at_boundary):
            case Broken() as end:
                return _failed(asked, end)
            case Episode(record=record):
                assert record is not None
                if asked.task_id is UNSET:
                    return json_reply(record)
                return json_reply(EpisodeReply(asked.episode, asked.task_id, result=record))


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
    server = EnvironmentServer(sources, settings)

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
    app = Starlette(routes=routes, lifespan=lifespan)
    take_part(app, server.episodes, server.episodes.admission, settings.checkpoint)
    return app


def _failed(asked: RunRequest, end: Broken) -> Response:
    if end.lost:
        return refusal(Code.COORDINATOR_UNAVAILABLE, end.reason)  # no reply: the row is played again
    if asked.task_id is UNSET:
        return broken(end.reason)
    reason = end.reason if len(end.reason) <= MAX_REASON else end.reason[: MAX_REASON - 1] + "…"
    failure = Failure(reason, terminal=not end.passing, stage=end.stage)
    return json_reply(EpisodeReply(asked.episode, asked.task_id, failure=failure))
