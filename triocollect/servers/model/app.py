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

from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code
from triocollect.servers.identity import CAPTURE_KEY
from triocollect.servers.model.calls import Call, Calls
from triocollect.servers.model.upstream import respond
from triocollect.servers.peers import Connect, Peer, network
from triocollect.servers.replies import attended, refusal


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where policy calls go: `worker_url` is a base URL, to which `/responses` is added."""

    worker_url: str
    model: str | None = None  # replaces the request's own `model`
    api_key: str | None = None


class ModelServer:
    """Policy calls, each admitted, forwarded and delivered."""

    def __init__(self, settings: ModelSettings, worker: Peer) -> None:
        self._model: Final = settings.model
        self._worker: Final = worker
        self._headers: Final = (
            {} if settings.api_key is None else {"authorization": f"Bearer {settings.api_key}"}
        )
        self.calls: Final = Calls()

    async def respond(self, request: Request) -> Response:
        """POST [/ng-rollout/<capture key>]/v1/responses: the Response object, never a stream."""
        body = await request.body()
        key: str | None = request.path_params.get("key")
        try:
            episode = None if key is None else EpisodeId.parse(key)
            order = self._in_worker_words(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            return refusal(Code.BAD_REQUEST, str(error))
        call = self.calls.admit(episode, order)
        try:
            return await attended(request, lambda: self._deliver(call))
        finally:
            self.calls.leave(call)

    def _in_worker_words(self, body: bytes) -> bytes:
        params = msgspec.json.decode(body, type=dict[str, Raw])
        params["stream"] = Raw(b"true")
        if self._model is not None:
            params["model"] = Raw(msgspec.json.encode(self._model))
        return msgspec.json.encode(params)

    async def _deliver(self, call: Call) -> Response:
        headers = self._headers
        if call.episode is not None:
            headers = {**headers, CAPTURE_KEY: call.episode.capture_key}
        return Response(await respond(self._worker, call, headers), media_type="application/json")


def build_app(settings: ModelSettings, connect: Connect = network) -> Starlette:
    """The policy model server as an ASGI application."""
    worker = Peer("inference worker", settings.worker_url, connect)
    server = ModelServer(settings, worker)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await worker.aclose()

    routes = [
        Route("/v1/responses", server.respond, methods=["POST"]),
        Route("/ng-rollout/{key}/v1/responses", server.respond, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)
