"""The scripted worker behind OpenAI's Responses API.

POST /v1/responses, whole or streamed. POST /v1/cuts cuts calls under way, and /v1/cuts/thaw lets them go on
(`triocollect/protocol/inference.py`); of a call that goes on from a cut only new tokens count. For tests:
POST /hold and /release stop and start the handing out of tokens, GET /calls tells the worker's own count of
calls and tokens, in total and for each value of the request header `x-capture-key` (those used last, some
thousands). Where it is told to, it writes each call down as it ends, since a count ends with its process.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, NamedTuple, final

import msgspec
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from triocollect.capture.staging import Staging
from triocollect.participant.standing import InThread
from triocollect.protocol.identity import CALL_ID, CAPTURE_KEY
from triocollect.protocol.inference import CONTINUE_CUT, CONTINUED_AT, CUTS, THAW, Inventory
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.inference import conversation, reply
from triocollect.servers.inference.cutting import Cutter, Running
from triocollect.servers.inference.generation import Generation, Hold, Tallies, Tally
from triocollect.servers.journal import Journal, journal
from triocollect.servers.replies import json_reply
from triocollect.servers.threads import IN_THREAD


class InferenceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tokens_per_s`: of each generation; None: as fast as possible. `hold`: held from the start.

    `calls_file`: gets an EndedCall per line. `staging`: the folder of staged cuts; None: nothing is cut.
    """

    tokens_per_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    hold: bool = False
    calls_file: str | None = None
    staging: str | None = None


class EndedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call: whose it was, whether it was generated to its end, and its tokens.

    `continued_at`: so many tokens of its answer were generated before; `output_tokens` are those after.
    """

    capture_key: str | None
    finished: bool
    input_tokens: int
    output_tokens: int
    continued_at: int = 0


class Whose(NamedTuple):
    """What names a call: the capture key and the call's id, if it has them, and a digest of what was asked.

    `given`: how many tokens of its answer were generated before.
    """

    key: str | None
    call_id: str | None
    request: str
    input_tokens: int
    given: int


class _Calls(msgspec.Struct, frozen=True):
    held: bool
    in_flight: int
    total: Tally
    by_capture_key: dict[str, Tally]


def build_app(
    settings: InferenceSettings,
    in_thread: InThread = IN_THREAD,
) -> Starlette:
    """A worker with counts and a hold of its own. Raises DeploymentError for an unwritable calls file."""
    worker = _Worker(settings, in_thread)
    return Starlette(
        routes=[
            Route(f"/v1{CUTS}", worker.cut, methods=["POST"]),
            Route(f"/v1{THAW}", worker.thaw, methods=["POST"]),
            Route("/v1/responses", _Responses(worker), methods=["POST"]),
            Route("/hold", worker.hold, methods=["POST"]),
            Route("/release", worker.release, methods=["POST"]),
            Route("/calls", worker.calls, methods=["GET"]),
        ]
    )


@final
class _Worker:
    def __init__(self, settings: InferenceSettings, in_thread: InThread) -> None:
        staging = None if settings.staging is None else Staging(Path(settings.staging))
        self.cutter: Final = Cutter(staging, in_thread)
        self._rate: Final = settings.tokens_per_s
        self._hold: Final = Hold(held=settings.hold)
        self._tallies: Final = Tallies()
        self._write_down: Final[Journal] = journal(settings.calls_file, "calls file")

    @contextmanager
    def generate(self, answer: reply.Reply, whose: Whose) -> Iterator[Generation]:
        """A generation that is counted. It ends finished, or by the exception that cut it off.

        One that is handed out is finished, also where the caller is gone before its server has noticed.
        """
        tallies = self._tallies.of(whose.key)
        for tally in tallies:
            tally.begin(whose.input_tokens)
        generation = Generation(len(answer.tokens), self._rate, self._hold, whose.given)
        try:
            with self.cutter.knowing(whose.call_id, Running(whose.request, answer.tokens, generation)):
                yield generation
        finally:
            for tally in tallies:
                tally.end(generation.generated, finished=generation.finished)
            self._write_down(
                EndedCall(
                    whose.key, generation.finished, whose.input_tokens, generation.generated, whose.given
                )
            )

    async def cut(self, request: Request) -> Response:
        try:
            inventory = msgspec.json.decode(await request.body(), type=Inventory)
        except NOT_JSON as problem:
            return _refusal(str(problem))
        return json_reply(await self.cutter.cut(inventory))

    async def thaw(self, request: Request) -> Response:
        try:
            self.cutter.thaw(msgspec.json.decode(await request.body(), type=Inventory))
        except NOT_JSON as problem:
            return _refusal(str(problem))
        return json_reply({})

    async def hold(self, _: Request) -> Response:
        self._hold.hold()
        return self._counts()

    async def release(self, _: Request) -> Response:
        self._hold.release()
        return self._counts()

    async def calls(self, _: Request) -> Response:
        return self._counts()

    def _counts(self) -> Response:
        total = self._tallies.total
        in_flight = total.calls - total.finished - total.cancelled
        return json_reply(_Calls(self._hold.held, in_flight, total, self._tallies.by_key))


@final
class _Responses:
    """POST /v1/responses, a plain ASGI app: a stream must notice a caller who leaves between two tokens."""

    def __init__(self, worker: _Worker) -> None:
        self._worker: Final = worker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            asked = conversation.read(await request.body())
        except (msgspec.DecodeError, RecursionError) as problem:
            await _refusal(str(problem))(scope, receive, send)
            return
        async with trio.open_nursery() as call:
            call.start_soon(_cancel_when_gone, receive, call.cancel_scope)
            answer = reply.compose(asked)
            whose = await self._whose(request, asked, answer)
            with self._worker.generate(answer, whose) as generation:
                headers = {CONTINUED_AT: str(whose.given)} if whose.given else {}
                if asked.stream:
                    await _send_stream(answer, generation, headers, send)
                else:
                    await generation.reach(len(answer.tokens))
                    whole = json_reply(answer.response)
                    whole.headers.update(headers)
                    await whole(scope, receive, send)
            call.cancel_scope.cancel()

    async def _whose(self, request: Request, asked: conversation.Conversation, answer: reply.Reply) -> Whose:
        digest, cut = asked.digest.hex(), request.headers.get(CONTINUE_CUT)
        given = 0 if cut is None else await self._worker.cutter.given(cut, digest, answer.tokens)
        headers = request.headers
        return Whose(headers.get(CAPTURE_KEY), headers.get(CALL_ID), digest, asked.input_tokens, given)


async def _send_stream(
    answer: reply.Reply, generation: Generation, headers: Mapping[str, str], send: Send
) -> None:
    named = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store", **headers}
    encoded = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": 200, "headers": encoded})
    ready = b""  # what can go out in one piece does
    for frame in reply.frames(answer):
        if ready and not generation.reached(frame.after_tokens):
            await send({"type": "http.response.body", "body": ready, "more_body": True})
            ready = b""
        await generation.reach(frame.after_tokens)
        ready += frame.data
    await send({"type": "http.response.body", "body": ready, "more_body": False})


async def _cancel_when_gone(receive: Receive, call: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel()


def _refusal(message: str) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return json_reply({"error": error}, 400)
