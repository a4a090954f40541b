"""The scripted worker behind OpenAI's Responses API.

POST /v1/responses, whole or streamed. For tests: POST /hold and /release stop and start the handing out of
tokens, GET /calls tells the worker's own count of calls and tokens, in total and for each value of the
request header `x-capture-key` (those used last, some thousands). Where it is told to, it writes each call
down as it ends, since a count ends with its process.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, final

import msgspec
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from triocollect.protocol.identity import CAPTURE_KEY
from triocollect.servers.inference import conversation, reply
from triocollect.servers.inference.generation import Generation, Hold, Tallies, Tally
from triocollect.servers.journal import Journal, journal
from triocollect.servers.replies import json_reply


class InferenceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tokens_per_s`: of each generation; None: as fast as possible. `hold`: held from the start.

    `calls_file`: gets an EndedCall per line.
    """

    tokens_per_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    hold: bool = False
    calls_file: str | None = None


class EndedCall(msgspec.Struct, frozen=True):
    """One call: whose it was, whether it was generated to its end, and its tokens."""

    capture_key: str | None
    finished: bool
    input_tokens: int
    output_tokens: int


class _Calls(msgspec.Struct, frozen=True):
    held: bool
    in_flight: int
    total: Tally
    by_capture_key: dict[str, Tally]


def build_app(settings: InferenceSettings) -> Starlette:
    """A worker with counts and a hold of its own. Raises DeploymentError for an unwritable calls file."""
    worker = _Worker(settings)
    return Starlette(
        routes=[
            Route("/v1/responses", _Responses(worker), methods=["POST"]),
            Route("/hold", worker.hold, methods=["POST"]),
            Route("/release", worker.release, methods=["POST"]),
            Route("/calls", worker.calls, methods=["GET"]),
        ]
    )


@final
class _Worker:
    def __init__(self, settings: InferenceSettings) -> None:
        self._rate: Final = settings.tokens_per_s
        self._hold: Final = Hold(held=settings.hold)
        self._tallies: Final = Tallies()
        self._write_down: Final[Journal] = journal(settings.calls_file, "calls file")

    @contextmanager
    def generate(self, answer: reply.Reply, input_tokens: int, key: str | None) -> Iterator[Generation]:
        """A generation that is counted. It ends finished, or by the exception that cut it off.

        One that is handed out is finished, also where the caller is gone before its server has noticed.
        """
        tallies = self._tallies.of(key)
        for tally in tallies:
            tally.begin(input_tokens)
        generation = Generation(len(answer.tokens), self._rate, self._hold)
        try:
            yield generation
        finally:
            for tally in tallies:
                tally.end(generation.generated, finished=generation.finished)
            self._write_down(EndedCall(key, generation.finished, input_tokens, generation.generated))

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
            key = request.headers.get(CAPTURE_KEY)
            with self._worker.generate(answer, asked.input_tokens, key) as generation:
                if asked.stream:
                    await _send_stream(answer, generation, send)
                else:
                    await generation.reach(len(answer.tokens))
                    await json_reply(answer.response)(scope, receive, send)
            call.cancel_scope.cancel()


async def _send_stream(answer: reply.Reply, generation: Generation, send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
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
