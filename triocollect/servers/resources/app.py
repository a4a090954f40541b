"""One resources server: mounts one verifier or environment under the routes that Gym 0.7.0's servers have.

POST /seed_session, /<tool>, /verify, /close_session. Whose work a request is, its headers say; a Gym agent
sends no such headers, but the row when it seeds, and from then on the session's cookie.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Generic, TypeVar, final

import msgspec
from msgspec import Raw
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triocollect.errors import ConfigError
from triocollect.participant import Admission
from triocollect.protocol.identity import Sender, episode_in, sender_in
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, Refusal
from triocollect.servers.replies import broken, json_reply, refusal, refused, retired
from triocollect.servers.resources import (
    blackjack,
    counter,
    exact_match,
    instructions,
    json_schema,
    multiple_choice,
    numeric,
    sql,
)
from triocollect.servers.resources.answer import final_answer
from triocollect.servers.resources.effects import Effect, Record, recorder
from triocollect.servers.resources.open_sessions import OpenSessions
from triocollect.servers.resources.row_names import episode_of_row
from triocollect.servers.resources.sessions import Session
from triocollect.servers.resources.source import Source, Verifier
from triocollect.servers.taking_part import CheckpointSettings, instance_of, take_part

S = TypeVar("S")
Handler = Callable[[Request], Awaitable[Response]]

COOKIE_LIFE_S: Final = 14 * 24 * 3600  # as Gym 0.7.0's session cookies
NO_ARGUMENTS: Final = b"{}"


class ResourcesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`name`: this instance. `source`: which verifier or environment, one of `SOURCES`.

    `checkpoint`: how it takes part in checkpoints; None: not at all.
    """

    name: str
    source: str
    effects_file: str | None = None
    checkpoint: CheckpointSettings | None = None


class _Verdict(msgspec.Struct, frozen=True):
    """What every verify reply has; a judged rollout is never masked and never a failure here."""

    reward: float
    mask_sample: bool = False
    failure_kind: None = None
    failure_reason: None = None


_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def build_app(settings: ResourcesSettings) -> Starlette:
    """Raises ConfigError for a source that does not exist, DeploymentError for an unwritable effects file."""
    if (mount := SOURCES.get(settings.source)) is None:
        raise ConfigError(
            f"no resources server is called {settings.source!r}; there are {', '.join(SOURCES)}"
        )
    return mount(settings)


@final
class _Server(Generic[S]):
    def __init__(self, settings: ResourcesSettings, source: Source[S]) -> None:
        self._source = source
        self._admission = Admission()
        self.sessions = OpenSessions(
            instance_of(settings.checkpoint, settings.name), self._admission, source.mode, source.state_type
        )
        self._record: Record[S] = recorder(settings.effects_file)
        self._cookie = f"Resources___{settings.name}"

    async def seed(self, request: Request) -> Response:
        row = await request.body()
        episode = _episode_of_headers(request) or episode_of_row(row)
        if episode is None:
            return _no_identity("neither x-rollout-id nor the row's own indices say whose session this is")
        return await self._at_work(request, episode, "seed_session", lambda: self._seeded(episode, row))

    async def call(self, request: Request) -> Response:
        tool = request.path_params["tool"]
        if tool not in self._source.tools:
            known = ", ".join(sorted(self._source.tools)) or "none"
            return refusal(Code.UNKNOWN_TOOL, f"there is no tool {tool!r}; tools: {known}")
        arguments = await request.body() or NO_ARGUMENTS
        episode = _episode_of_headers(request)
        return await self._at_work(request, episode, tool, lambda: self._called(request, tool, arguments))

    async def verify(self, request: Request) -> Response:
        """Judging changes nothing, so it can be done twice and keeps no checkpoint waiting."""
        body = await request.body()
        episode = _episode_of_headers(request)
        return await self._at_work(request, episode, None, lambda: self._verified(request, body))

    async def close(self, request: Request) -> Response:
        """Closing what is closed already changes nothing, so that it can be repeated. It never waits."""
        if (session := self._session(request)) is not None:
            self.sessions.end(session)
        return json_reply({})

    async def _at_work(
        self, request: Request, episode: EpisodeId | None, why: str | None, act: Callable[[], Response]
    ) -> Response:
        """What `act` answers, in one step with the admission."""
        work = await self._admission.admit(episode, why, sender=_sender_of_headers(request))
        if isinstance(work, Refusal):
            return refused(work)
        with work:
            return act()
        return retired(episode, self._admission)

    def _seeded(self, episode: EpisodeId, row: bytes) -> Response:
        state = self._source.begin(row)
        if self._source.mode != "stateless":
            self._record(Effect(episode.rollout_id, episode.attempt, "seed", Raw(NO_ARGUMENTS), state))
        session = self.sessions.begin(episode, state)
        response = json_reply({})
        response.set_cookie(
            self._cookie, session.cookie, max_age=COOKIE_LIFE_S, httponly=True, samesite="lax"
        )
        return response

    def _called(self, request: Request, tool: str, arguments: bytes) -> Response:
        if (session := self._session(request)) is None:
            return _no_identity("no open session has this identity or cookie; POST /seed_session first")
        step = self._source.call(session.state, tool, arguments)
        if step.state is not session.state:
            episode = session.episode
            self._record(Effect(episode.rollout_id, episode.attempt, tool, Raw(arguments), step.state))
            session.state = step.state
        return json_reply({"output": step.output})

    def _verified(self, request: Request, body: bytes) -> Response:
        if (session := self._session(request)) is None:
            return _no_identity("no open session has this identity or cookie; POST /seed_session first")
        fields: dict[str, object] = dict(_decode_fields(body))
        verdict = self._source.verify(session.state, final_answer(body), body)
        return json_reply(fields | msgspec.structs.asdict(_Verdict(verdict.reward)) | verdict.details)

    def _session(self, request: Request) -> Session[S] | None:
        return self.sessions.find(_episode_of_headers(request), request.cookies.get(self._cookie))


def _mount(settings: ResourcesSettings, source: Source[S]) -> Starlette:
    server = _Server(settings, source)
    routes = {
        "/seed_session": server.seed,
        "/verify": server.verify,
        "/close_session": server.close,
        "/{tool}": server.call,
    }
    own = [Route(path, _judged(handler), methods=["POST"]) for path, handler in routes.items()]
    app = Starlette(routes=own)
    take_part(app, server.sessions, server.sessions.admission, settings.checkpoint)
    return app


SOURCES: Final[Mapping[str, Callable[[ResourcesSettings], Starlette]]] = {
    "exact_match": partial(_mount, source=Verifier(exact_match.Expected, exact_match.verify)),
    "multiple_choice": partial(_mount, source=Verifier(multiple_choice.Expected, multiple_choice.verify)),
    "numeric": partial(_mount, source=Verifier(numeric.Expected, numeric.verify)),
    "instructions": partial(_mount, source=Verifier(instructions.Expected, instructions.verify)),
    "json_schema": partial(_mount, source=Verifier(json_schema.Expected, json_schema.verify)),
    "counter": partial(_mount, source=counter.CounterSource()),
    "blackjack": partial(_mount, source=blackjack.BlackjackSource()),
    "sql": partial(_mount, source=sql.SqlSource()),
}


def _episode_of_headers(request: Request) -> EpisodeId | None:
    try:
        return episode_in(request.headers)
    except ValueError as fault:
        raise msgspec.ValidationError(str(fault)) from None


def _sender_of_headers(request: Request) -> Sender | None:
    try:
        return sender_in(request.headers)
    except ValueError as fault:
        raise msgspec.ValidationError(str(fault)) from None


def _judged(handler: Handler) -> Handler:
    """What a body or a header has wrong is told to the caller: an agent feeds it back to its model."""

    async def judged(request: Request) -> Response:
        try:
            return await handler(request)
        except (msgspec.DecodeError, RecursionError) as problem:
            return refusal(Code.BAD_REQUEST, str(problem))
        except OSError as problem:  # an effect that is not on record has not happened
            return broken(f"effects file: {problem.strerror}")

    return judged


def _no_identity(detail: str) -> Response:
    return refusal(Code.ROLLOUT_ID_REQUIRED, detail)
