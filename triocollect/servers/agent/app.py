"""The agent server's routes: create a session, activate it, close it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import trio
from msgspec import Raw
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triocollect.errors import PeerError
from triocollect.participant import Admission, Work
from triocollect.protocol.identity import Sender, close_path, episode_in, sender_in
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, Refusal
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.agent.loop import AgentPeers, run_session
from triocollect.servers.agent.session import Finished, Session, activated, next_step
from triocollect.servers.agent.sessions import AgentSessions
from triocollect.servers.cookies import set_again
from triocollect.servers.peers import Connect, Peer, network
from triocollect.servers.replies import attended, json_reply, refusal, refused, retired, under_way
from triocollect.servers.taking_part import CheckpointSettings, instance_of, take_part

TELLING_S: Final = 2.0  # well below what an environment gives to the end of an episode's sessions


class AgentInstance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One agent of this process: base URLs of its resources server and its model server."""

    resources_name: str
    resources_url: str
    model_url: str
    max_steps: int = 64  # policy calls of one activation


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agents that this process serves, by the names that rows call them by.

    `checkpoint`: how it takes part in checkpoints; None: not at all.
    """

    agents: dict[str, AgentInstance]
    checkpoint: CheckpointSettings | None = None


class OpenSession(msgspec.Struct, frozen=True):
    """Body of POST /v1/agent_sessions."""

    agent: str
    cookie: str | None = None  # of the resources server's session


class AgentServer:
    """The routes of an agent session's life."""

    def __init__(self, agents: Mapping[str, AgentPeers], checkpoint: CheckpointSettings | None) -> None:
        self._agents: Final = agents
        self._keeps_account: Final = checkpoint is not None  # and so do the models
        self._admission: Final = Admission()
        self.sessions: Final = AgentSessions(instance_of(checkpoint, "agent"), self._admission)
        self._active: Final[dict[EpisodeId, Work]] = {}

    async def open(self, request: Request) -> Response:
        """POST /v1/agent_sessions. Opening an episode's session again begins it anew."""
        body = await request.body()
        try:
            order = msgspec.json.decode(body, type=OpenSession)
            episode, sender = episode_in(request.headers), sender_in(request.headers)
        except (ValueError, *NOT_JSON) as error:
            return refusal(Code.BAD_REQUEST, str(error))
        if episode is None:
            return refusal(
                Code.ROLLOUT_ID_REQUIRED, "an agent session belongs to an episode: say x-rollout-id"
            )
        if order.agent not in self._agents:
            known = ", ".join(sorted(self._agents))
            return refusal(Code.BAD_REQUEST, f"there is no agent {order.agent!r} here; there are: {known}")
        work = await self._admission.admit(episode, "opening a session", sender=sender)
        if isinstance(work, Refusal):
            return refused(work)
        with work:
            if episode in self._active:
                return under_way(episode)
            self.sessions.begin(Session(episode=episode, agent=order.agent, cookie=order.cookie))
        return json_reply({"session_id": episode.capture_key})

    async def activate(self, request: Request) -> Response:
        """POST /ng-rollout/<capture key>/v1/responses: go on from the latest boundary to the end.

        The body is the row's `responses_create_params`; of a session that has begun already it is not read.
        A session that has ended says the same again.
        """
        body = await request.body()
        try:
            episode, sender = EpisodeId.parse(request.path_params["key"]), sender_in(request.headers)
        except ValueError as error:
            return refusal(Code.BAD_REQUEST, str(error))
        work = await self._admission.admit(episode, "starting", sender=sender)
        if isinstance(work, Refusal):
            return refused(work)
        with work:
            return await self._activated(request, episode, sender, body, work)
        return retired(episode, self._admission)

    async def close(self, request: Request) -> Response:
        """POST /v1/agent_sessions/close. Closing what is not open is not a fault, and never waits.

        An activation ends with its session: whoever waited for it may have been lost on the way unnoticed.
        """
        try:
            episode = episode_in(request.headers)
        except ValueError as error:
            return refusal(Code.BAD_REQUEST, str(error))
        closed = episode is not None and self.sessions.end(episode)
        if episode in self._active:
            self._active[episode].retire()
        if episode is not None and self._keeps_account:
            await self._tell_models(episode)
        return json_reply({"closed": closed})

    async def _tell_models(self, episode: EpisodeId) -> None:
        """All of them, whether a session was open or not: a continued episode may only close.

        One that does not hear it is told by the collector that the rollout is over.
        """
        for model in {around.model for around in self._agents.values()}:
            with trio.move_on_after(TELLING_S), suppress(PeerError):
                await model.ask(close_path(episode), b"{}", {})

    async def _activated(
        self, request: Request, episode: EpisodeId, sender: Sender | None, body: bytes, work: Work
    ) -> Response:
        if episode in self._active:
            return under_way(episode)
        if (session := self.sessions.find(episode)) is None:
            return refusal(Code.NO_SESSION, f"no session of {episode.capture_key} is open")
        try:
            if session.params is None:
                session = activated(session, msgspec.json.decode(body, type=dict[str, Raw]))
        except NOT_JSON as error:
            return refusal(Code.BAD_REQUEST, f"responses_create_params: {error}")
        begun = replace(session, sender=sender)
        self._active[episode] = work
        try:
            return await attended(request, self._admission, lambda: self._run(begun, work))
        finally:
            del self._active[episode]

    async def _run(self, session: Session, work: Work) -> Response:
        around = self._agents[session.agent]
        try:
            session = await run_session(session, around, work, self.sessions)
        except PeerError as error:
            if not error.lost:
                raise
            return refusal(Code.COORDINATOR_UNAVAILABLE, str(error))
        last = next_step(session, around.max_steps)
        assert isinstance(last, Finished)
        response = Response(last.response, media_type="application/json")
        response.raw_headers.extend(set_again(session.cookie))
        return response


def build_app(settings: AgentSettings, connect: Connect = network) -> Starlette:
    """The agent server as an ASGI application."""
    peers: dict[str, Peer] = {}

    def peer(name: str, url: str) -> Peer:
        if url not in peers:
            peers[url] = Peer(name, url, connect)
        return peers[url]

    server = AgentServer(
        {
            name: AgentPeers(
                resources=peer(one.resources_name, one.resources_url),
                model=peer("policy_model", one.model_url),
                max_steps=one.max_steps,
            )
            for name, one in settings.agents.items()
        },
        settings.checkpoint,
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        for each in peers.values():
            await each.aclose()

    routes = [
        Route("/v1/agent_sessions", server.open, methods=["POST"]),
        Route("/v1/agent_sessions/close", server.close, methods=["POST"]),
        Route("/ng-rollout/{key}/v1/responses", server.activate, methods=["POST"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    take_part(app, server.sessions, server.sessions.admission, settings.checkpoint)
    return app
