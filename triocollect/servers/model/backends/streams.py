"""The answer to one request at a backend, as it comes."""

import math
from collections.abc import Callable, Iterator
from typing import Final

import httpx
import msgspec
import trio

from triocollect.errors import PeerError, TransportError
from triocollect.protocol.values import NOT_JSON, JsonObject
from triocollect.servers.model.backends.chunks import Piece, ToolPiece, piece_of
from triocollect.servers.model.backends.generated import Generated
from triocollect.servers.model.backends.line import Line
from triocollect.servers.model.events import FAULTS, EventStream, StreamEvent
from triocollect.servers.peers import LINGER_S, answered_badly, lost, reply_of, told

_TEXT: Final = "response.output_text.delta"
_REFUSAL: Final = "response.refusal.delta"
_REASONING: Final = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})
_CALL: Final = "_call_arguments.delta"
_ITEM: Final = "response.output_item.added"


async def chat(
    line: Line, path: str, body: JsonObject, answer: Generated, over: Callable[[], bool] = lambda: False
) -> None:
    """Read a stream of chunks, or a whole answer, into `answer`, to its end or until it is `over`.

    `over` may end the answer before its end, so it is asked about a whole one too.

    Raises PeerError.
    """
    name, order = line.peer.name, msgspec.json.encode(body | {"stream": True})
    async with line.peer.stream(path, order, line.headers) as reply:
        try:
            if not reply.is_success:  # a redirect is not followed
                raise answered_badly(name, path, reply_of(reply, await reply.aread()))
            if reply.headers.get("content-type", "").startswith("text/event-stream"):
                await _read(name, reply, answer, over)
            else:
                answer.add(piece_of(await reply.aread()))
                over()
        except (httpx.HTTPError, TransportError) as error:
            if answer.finish is None:
                raise await lost(name, error) from error
    if answer.finish is None:
        raise PeerError(f"{name} ended its stream before the answer was complete", passing=True)


async def _read(name: str, reply: httpx.Response, answer: Generated, over: Callable[[], bool]) -> None:
    """Reads on after the answer is known: its usage follows, and the connection can be used again.

    Not for long after the stream has said that it is over: some stay open.

    What is enough is cancelled where it waits, as httpx's generators cannot be left half read.
    """
    events, fault = EventStream(), None
    with trio.CancelScope() as enough:
        async for data in reply.aiter_bytes():
            try:
                if not enough.cancel_called and _heard(name, events.feed(data), answer, over):
                    enough.cancel()
                elif events.done and enough.deadline == math.inf:
                    enough.deadline = trio.current_time() + LINGER_S
            except PeerError as error:
                fault = error
                enough.cancel()
    if fault is not None:
        raise fault
    if events.done and answer.finish is None:
        answer.finish = "stop"


def _heard(name: str, events: Iterator[StreamEvent], answer: Generated, over: Callable[[], bool]) -> bool:
    """Whether it is over after these."""
    try:
        for event in events:
            if event.type in FAULTS:
                raise PeerError(f"{name} failed: {told(event.data)}", passing=True)
            answer.add(piece_of(event.data))
            if over():
                return True
    except NOT_JSON as error:
        raise PeerError(f"{name} sent an event that is not JSON: {error}", passing=False) from error
    return False


class _Event(msgspec.Struct, frozen=True):
    delta: str | None = None
    item: "_Item | None" = None


class _Item(msgspec.Struct, frozen=True):
    type: str = ""


def heard(event: StreamEvent) -> Piece:
    """What an event of the Responses API adds to an answer. Raises msgspec.MsgspecError."""
    if event.type == _TEXT:
        return Piece(text=_decode(event.data).delta or "")
    if event.type in _REASONING:
        return Piece(reasoning=_decode(event.data).delta or "")
    if event.type == _REFUSAL:
        return Piece(refusal=_decode(event.data).delta or "")
    if event.type.endswith(_CALL):
        return Piece(tools=(ToolPiece(),))
    if event.type == _ITEM:
        item = _decode(event.data).item
        return Piece(tools=(ToolPiece(),) if item is not None and item.type.endswith("_call") else ())
    return Piece()


_decode: Final = msgspec.json.Decoder(_Event).decode
