"""The policy model server's routes: a policy call, with or without whose it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from msgspec import Raw
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from triocollect.participant import Admission
from triocollect.protocol.identity import CALL_ID, CAPTURE_KEY, PARENT_CALL, Sender, sender_in
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, Refusal
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.model.calls import Call
from triocollect.servers.model.capture import Capture
from triocollect.servers.model.upstream import respond
from triocollect.servers.peers import Connect, Peer, network
from triocollect.servers.replies import Gone, attended, json_reply, refusal, refused, retired
from triocollect.servers.states import digest_of
from triocollect.servers.taking_part import CheckpointSettings, instance_of, take_part

SENDING: Final = "its answer is being sent"
SUCCESS: Final = 200


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where policy calls go: `worker_url` is a base URL, to which `/responses` is added.

    `checkpoint`: how it takes part in checkpoints; None: not at all.
    """

    worker_url: str
    model: str | None = None  # replaces the request's own `model`
    api_key: str | None = None
    checkpoint: CheckpointSettings | None = None


class _Asked(msgspec.Struct, frozen=True):
    episode: EpisodeId | None
    sender: Sender | None
    parent: str | None
    params: dict[str, Raw]


class ModelServer:
    """POST [/ng-rollout/<capture key>]/v1/responses: the Response object, never a stream.

    A plain ASGI application, because a call is over only when its answer is sent. While the door is closed
    calls wait before it, those admitted run on, and finished answers are held.
    """

    def __init__(self, settings: ModelSettings, worker: Peer) -> None:
        self._model: Final = settings.model
        self._worker: Final = worker
        self._headers: Final = (
            {} if settings.api_key is None else {"authorization": f"Bearer {settings.api_key}"}
        )
        self._keeps_account: Final = settings.checkpoint is not None
        self._admission: Final = Admission()
        self.capture: Final = Capture(instance_of(settings.checkpoint, "model"), self._admission)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One policy call."""
        request = Request(scope, receive)
        asked = await self._asked(request)
        if isinstance(asked, Response):
            await asked(scope, receive, send)
            return
        work = await self._admission.admit(asked.episode, None, sender=asked.sender)
        if isinstance(work, Refusal):
            await refused(work)(scope, receive, send)
            return
        with work:
            call = self._admitted(asked)
            try:
                reply = await attended(request, self._admission, lambda: self._generate(call))
                await self._admission.until_open()
                work.busy(SENDING)
                delivered = reply.status_code == SUCCESS and not isinstance(reply, Gone)
                if self._keeps_account and delivered:
                    self.capture.deliver(call, bytes(reply.body))
                await reply(scope, receive, send)
            finally:
                self.capture.calls.leave(call)
        if work.retired and work.why != SENDING:
            await retired(asked.episode, self._admission)(scope, receive, send)

    async def close(self, request: Request) -> Response:
        """POST /ng-rollout/<capture key>/close: the episode is over. It can be repeated, and never waits."""
        try:
            self.capture.end(EpisodeId.parse(request.path_params["key"]))
        except ValueError as error:
            return refusal(Code.BAD_REQUEST, str(error))
        return json_reply({})

    async def _asked(self, request: Request) -> _Asked | Response:
        body = await request.body()
        key: str | None = request.path_params.get("key")
        if key is None and self._keeps_account:
            return refusal(Code.ROLLOUT_ID_REQUIRED, "ask under /ng-rollout/<capture key>/v1/responses")
        try:
            return _Asked(
                episode=None if key is None else EpisodeId.parse(key),
                sender=sender_in(request.headers),
                parent=request.headers.get(PARENT_CALL),
                params=msgspec.json.decode(body, type=dict[str, Raw]),
            )
        except (ValueError, *NOT_JSON) as error:
            return refusal(Code.BAD_REQUEST, str(error))

    def _admitted(self, asked: _Asked) -> Call:
        order = self._in_worker_words(asked.params)
        if not self._keeps_account or asked.episode is None:
            return self.capture.calls.admit(asked.episode, order)
        self.capture.admit(asked.episode, asked.parent)
        return self.capture.calls.admit(asked.episode, order, asked.parent, digest_of(asked.params))

    def _in_worker_words(self, asked: dict[str, Raw]) -> bytes:
        params = {**asked, "stream": Raw(b"true")}
        if self._model is not None:
            params["model"] = Raw(msgspec.json.encode(self._model))
        return msgspec.json.encode(params)

    async def _generate(self, call: Call) -> Response:
        headers = self._headers
        if call.episode is not None:
            headers = {**headers, CAPTURE_KEY: call.episode.capture_key}
        response = await respond(self._worker, call, headers)
        return Response(response, media_type="application/json", headers={CALL_ID: call.id})


def build_app(settings: ModelSettings, connect: Connect = network) -> Starlette:
    """The policy model server as an ASGI application."""
    worker = Peer("inference worker", settings.worker_url, connect)
    server = ModelServer(settings, worker)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await worker.aclose()

    routes = [
        Route("/v1/responses", server, methods=["POST"]),
        Route("/ng-rollout/{key}/v1/responses", server, methods=["POST"]),
        Route("/ng-rollout/{key}/close", server.close, methods=["POST"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    take_part(app, server.capture, server.capture.admission, settings.checkpoint)
    return app
