"""The policy model server's routes: a policy call, with or without whose it is."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio
from msgspec import Raw
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from triocollect.capture.shares import ALONE, Share
from triocollect.capture.staging import STAGING, Staging
from triocollect.capture.store import CAPTURE
from triocollect.config.settings import CutsMode
from triocollect.errors import DamageError
from triocollect.participant import Admission, Work
from triocollect.participant.standing import InThread
from triocollect.protocol.handed_down import NOTE
from triocollect.protocol.identity import CALL_ID, PARENT_CALL, Sender, sender_in
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, Refusal
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.model.account import Account
from triocollect.servers.model.backends.backend import Backend
from triocollect.servers.model.backends.known import Known
from triocollect.servers.model.backends.probe import root_of
from triocollect.servers.model.calls import Answer, Call, new_id
from triocollect.servers.model.capture import Capture
from triocollect.servers.model.constrained import is_constrained
from triocollect.servers.model.cuts import Source
from triocollect.servers.model.native import Native
from triocollect.servers.model.patience import Patience
from triocollect.servers.peers import Connect, Peer, network
from triocollect.servers.replies import Gone, attended, json_reply, refusal, refused, retired
from triocollect.servers.states import digest_of
from triocollect.servers.taking_part import CheckpointSettings, instance_of, take_part
from triocollect.servers.threads import IN_THREAD

_log: Final = logging.getLogger("triocollect.servers")

RECORDING: Final = "its answer is being written down"
SENDING: Final = "its answer is being sent"
BY_HOLDING: Final = "held"  # the answer was whole, and not delivered


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where policy calls go: `worker_url` is a base URL, to which `/responses` is added.

    `checkpoint`: how it takes part in checkpoints; None: not at all. `cuts`: whether calls under way at one
    are kept as far as they are generated; `exact`: only where the whole text is the same then for sure.
    `worker_cuts`: the worker cuts by itself, as the embedded one does. `backend`: it is somebody else's, and
    is asked in the ways that it turns out to have (`backends/`).
    """

    worker_url: str
    model: str | None = None  # replaces the request's own `model`
    api_key: str | None = None
    checkpoint: CheckpointSettings | None = None
    cuts: CutsMode = "on"
    worker_cuts: bool = False
    backend: bool = False

    def __repr__(self) -> str:
        """The key is nobody's to read."""
        told = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "api_key")
        return f"ModelSettings({', '.join(told)})"


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

    def __init__(self, settings: ModelSettings, source: Source, in_thread: InThread = IN_THREAD) -> None:
        self._model: Final = settings.model
        self._source: Final = source
        self._patience: Final = Patience()
        self._keeps_account: Final = settings.checkpoint is not None
        self._in_thread: Final = in_thread
        self._admission: Final = Admission()
        checkpoint = settings.checkpoint
        self.capture: Final = Capture(
            instance_of(checkpoint, "model"),
            self._admission,
            source,
            _account(checkpoint, in_thread),
            _staging(settings),
        )
        self.capture.can_cut = self.capture.staging is not None and (settings.worker_cuts or settings.backend)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One policy call."""
        request = Request(scope, receive)
        asked = await self._asked(request)
        if isinstance(asked, Response):
            await asked(scope, receive, send)
            return
        work = await self._admit(asked)
        if isinstance(work, Refusal):
            await refused(work)(scope, receive, send)
            return
        with work:
            call = self._admitted(asked)
            try:
                reply = await attended(request, self._admission, lambda: self._generate(call))
                await self._admission.until_open()
                work.busy(RECORDING)
                reply = reply if work.retired else await self._recorded(call, reply)
                work.busy(SENDING)
                self.capture.calls.leave(call)  # there is nothing left of it to cut
                await reply(scope, receive, send)
            finally:
                self.capture.calls.leave(call)
        if work.retired and work.why != SENDING:
            await retired(asked.episode, self._admission)(scope, receive, send)

    async def _recorded(self, call: Call, reply: Response) -> Response:
        answer = self.capture.calls.answers.get(call.id)
        if not self._keeps_account or answer is None or isinstance(reply, Gone):
            return reply
        why_not = await self.capture.deliver(call, answer)
        return reply if why_not is None else refused(why_not)

    async def close(self, request: Request) -> Response:
        """POST /ng-rollout/<capture key>/close: the episode is over. Can be repeated, also while closed."""
        try:
            self.capture.end(EpisodeId.parse(request.path_params["key"]))
        except ValueError as error:
            return refusal(Code.BAD_REQUEST, str(error))
        await self.capture.account.written()
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

    async def _admit(self, asked: _Asked) -> Work | Refusal:
        """A fence outlives the process that set it, and so refuses what nobody here has marked."""
        await self._admission.until_open()
        refused = self._admission.refusal(asked.episode, sender=asked.sender)
        if refused is None and asked.episode is not None:
            refused = self.capture.ledger.refusal(asked.episode)
        return self._admission.enter(asked.episode, None) if refused is None else refused

    def _admitted(self, asked: _Asked) -> Call:
        order = self._in_worker_words(asked.params)
        calls, name = self.capture.calls, new_id()
        if not self._keeps_account or asked.episode is None:
            return calls.admit(Call(name, asked.episode, order))
        self.capture.admit(asked.episode, asked.parent)
        digest, constrained = digest_of(asked.params), is_constrained(asked.params)
        cut = None if constrained else self.capture.take_cut(asked.episode, asked.parent, digest)
        return calls.admit(Call(name, asked.episode, order, asked.parent, digest, cut, constrained))

    def _in_worker_words(self, asked: dict[str, Raw]) -> bytes:
        params = {**asked, "stream": Raw(b"true")}
        if self._model is not None:
            params["model"] = Raw(msgspec.json.encode(self._model))
        return msgspec.json.encode(params)

    async def _generate(self, call: Call) -> Response:
        held = await self._held(call)
        answer = held or await self._patience.answered(partial(self._source.respond, call))
        self.capture.calls.answered(call, answer)
        return Response(answer.body, media_type="application/json", headers={CALL_ID: call.id})

    async def _held(self, call: Call) -> Answer | None:
        """The answer that an earlier attempt never got, if that is there."""
        staging = self.capture.staging
        if staging is None or call.cut is None or not call.cut.whole:
            return None
        try:
            staged = await self._in_thread(partial(staging.fetch, call.cut.key))
        except DamageError as error:
            _log.warning(NOTE + "call %s is generated again: %s", call.id, error)
            return None
        if staged.request != call.request_sha256 or isinstance(staged.response, msgspec.UnsetType):
            _log.warning(NOTE + "call %s is generated again: %s answers another one", call.id, call.cut.key)
            return None
        return Answer(bytes(staged.response), staged.tokens, BY_HOLDING)


def _account(checkpoint: CheckpointSettings | None, in_thread: InThread) -> Account:
    if checkpoint is None:
        return Account(None, in_thread)
    worker = checkpoint.worker
    share = ALONE if worker is None else Share(worker.number, worker.of)
    return Account(checkpoint.own(CAPTURE), in_thread, share)


def _staging(settings: ModelSettings) -> Staging | None:
    if settings.checkpoint is None or settings.cuts == "off":
        return None
    return Staging(Path(settings.checkpoint.directory) / STAGING)


def build_app(
    settings: ModelSettings, connect: Connect = network, in_thread: InThread = IN_THREAD
) -> Starlette:
    """The policy model server as an ASGI application."""
    headers = {} if settings.api_key is None else {"authorization": f"Bearer {settings.api_key}"}
    url = root_of(settings.worker_url) if settings.backend else settings.worker_url
    worker = Peer("inference worker", url, connect)
    staging = _staging(settings)
    cuts: CutsMode = "off" if staging is None else settings.cuts
    known = Known(worker, settings.worker_url, headers, settings.model, cuts)
    source: Source = Native(worker, headers, cuts=settings.worker_cuts)
    if settings.backend:
        source = Backend(known, staging, in_thread, cuts=cuts)
    server = ModelServer(settings, source, in_thread)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        server.capture.account.open()  # not before: who keeps workers builds this too, and never serves it
        async with trio.open_nursery() as tasks:  # the lifespan is one task, from its start to its end
            if server.capture.cuts is not None:
                server.capture.cuts.tasks = tasks
            if settings.backend:
                tasks.start_soon(known.start)
            yield
            tasks.cancel_scope.cancel()
        await worker.aclose()
        server.capture.account.close()

    routes = [
        Route("/v1/responses", server, methods=["POST"]),
        Route("/ng-rollout/{key}/v1/responses", server, methods=["POST"]),
        Route("/ng-rollout/{key}/close", server.close, methods=["POST"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    take_part(app, server.capture, server.capture.admission, settings.checkpoint)
    return app
