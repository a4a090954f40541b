"""One policy call at the inference worker: asked as a stream, given back as one Response object."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import httpx
import trio

from triocollect.errors import PeerError, TransportError
from triocollect.protocol.inference import CONTINUED_AT
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.model.calls import Answer, Call
from triocollect.servers.model.events import ENDINGS, FAULTS, NOTHING, EventStream, StreamEvent
from triocollect.servers.peers import LINGER_S, Peer, answered_badly, lost, reply_of, told

PATH: Final = "/responses"
MOST_DIGITS: Final = 9  # of a count of tokens
BY_WORKER: Final = "worker"  # it has continued the call by itself


async def respond(
    worker: Peer,
    call: Call,
    headers: Mapping[str, str],
    path: str = PATH,
    hear: Callable[[StreamEvent], None] = lambda _: None,
) -> Answer:
    """The answer to one call. Raises PeerError.

    A worker that cannot stream and answers with plain JSON is understood too. `hear` hears each event before
    the answer.
    """
    async with worker.stream(path, call.request, headers) as answer:
        try:
            if not answer.is_success:  # a redirect is not followed
                body = await answer.aread()
                raise answered_badly(worker.name, path, reply_of(answer, body))
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                return _answer(answer, await answer.aread())
            return _answer(answer, await _last_response(worker.name, answer, hear))
        except (httpx.HTTPError, TransportError) as error:
            raise await lost(worker.name, error) from error


def _answer(answer: httpx.Response, body: bytes) -> Answer:
    said = answer.headers.get(CONTINUED_AT, "")
    if not (said.isascii() and said.isdigit() and len(said) <= MOST_DIGITS):
        return Answer(body)
    return Answer(body, int(said), BY_WORKER)


async def _last_response(name: str, answer: httpx.Response, hear: Callable[[StreamEvent], None]) -> bytes:
    """Reads on for a while when the answer is known: at the stream's end the connection can be used again.

    A connection that is lost there, or stays open, costs no answer.
    """
    stream = EventStream()
    ending: bytes | PeerError | None = None
    try:
        with trio.CancelScope() as linger:
            async for data in answer.aiter_bytes():
                if ending is None and (ending := _ending(name, stream.feed(data), hear)) is not None:
                    linger.deadline = trio.current_time() + LINGER_S
    except (httpx.HTTPError, TransportError):
        if ending is None:
            raise
    if ending is None:
        raise PeerError(f"{name} ended its stream before the response was complete", passing=True)
    if isinstance(ending, PeerError):
        raise ending
    return ending


def _ending(
    name: str, events: Iterator[StreamEvent], hear: Callable[[StreamEvent], None]
) -> bytes | PeerError | None:
    """What this piece of the stream decides: the response, an error, or nothing yet."""
    try:
        for event in events:
            if event.type in FAULTS:
                return PeerError(f"{name} failed: {told(event.data)}", passing=True)
            if event.type in ENDINGS and event.response is not NOTHING:
                return bytes(event.response)
            hear(event)
    except NOT_JSON as error:
        return PeerError(f"{name} sent an event that is not JSON: {error}", passing=False)
    return None
