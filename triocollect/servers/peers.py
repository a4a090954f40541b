"""How one server asks another: one transport of httpx per callee, no deadline of its own, no cookie jar.

Each request goes once, as it is: no client of httpx stands around the transport, as redirects, proxies,
cookies and authentication are none of a peer's business, and cost more than the exchange.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import httpx
import msgspec
import trio

from triocollect.errors import BusyError, PeerError, TransportError
from triocollect.protocol.identity import CALL_ID
from triocollect.protocol.refusals import Code, RefusalBody
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.cookies import given_back
from triocollect.telemetry import carried
from triocollect.transport import Transport
from triocollect.transport.foreign import request_of
from triocollect.transport.retry_after import retry_after_s

Connect: TypeAlias = Callable[[str], httpx.AsyncBaseTransport]  # base URL -> how it is reached

PASSING_STATUSES: Final = frozenset({408, 425, 429})  # and every 5xx: worth another try (Gym 0.7.0)
# How long the death of a peer is kept from whoever asked us. Where one server of a deployment dies, all end,
# and their owner shall hear that first: else rows fail one by one that only have to run again.
HOLD_S: Final = 1.0
RETRY_EVERY_S: Final = 0.05
LINGER_S: Final = 5.0  # for the end of a stream that has said all: with it the connection can be used again
MAX_TOLD: Final = 500  # characters of a peer's own words in our message


def network(_base_url: str) -> httpx.AsyncBaseTransport:
    """The real network."""
    return Transport()


class PeerReply(msgspec.Struct, frozen=True):
    """A whole answer. `cookie` is what a Cookie header gives back of its Set-Cookie headers, if any.

    `call_id`: the name of the policy call that it answers, from a model server that keeps account of them.
    `retry_after`: the header of that name.
    """

    status: int
    body: bytes
    cookie: str | None = None
    call_id: str | None = None
    retry_after: str | None = None


class Peer:
    """Another server, by the name that messages call it by.

    Cookies are the caller's to keep: one peer serves all episodes, and a jar would mix their sessions. A call
    may last for hours; whoever cannot wait cancels.
    """

    def __init__(self, name: str, base_url: str, connect: Connect) -> None:
        self.name: Final = name
        self._base_url: Final = base_url.rstrip("/")
        self._transport: Final = connect(base_url)

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> PeerReply:
        """POST, any status. Raises PeerError where no whole answer came."""
        async with self.stream(path, body, headers) as response:
            content = await _whole(self.name, response)
            cookie = given_back(response.headers.get_list("set-cookie"))
            said = reply_of(response, content)
            return msgspec.structs.replace(said, cookie=cookie, call_id=response.headers.get(CALL_ID))

    async def get(self, path: str, headers: Mapping[str, str]) -> PeerReply:
        """GET, any status. Raises PeerError where no whole answer came."""
        response = await self._send("GET", path, None, headers)
        try:
            return reply_of(response, await _whole(self.name, response))
        finally:
            await response.aclose()

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> PeerReply:
        """POST. Raises PeerError where no whole answer came or its status is 400 or above."""
        reply = await self.ask(path, body, headers)
        if reply.status >= httpx.codes.BAD_REQUEST:
            raise answered_badly(self.name, path, reply)
        return reply

    @asynccontextmanager
    async def stream(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """POST, and the response while its body still comes. Raises PeerError where none came."""
        response = await self._send("POST", path, body, headers)
        try:
            yield response
        finally:
            await response.aclose()

    async def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        """Try for HOLD_S to reach a peer that takes no connection: nothing was sent to it."""
        deadline = trio.current_time() + HOLD_S
        lines = {"content-type": "application/json", **headers, **carried()}
        request = request_of(method, f"{self._base_url}{path}", lines, body)
        while True:
            try:
                return await self._transport.handle_async_request(request)
            except httpx.ConnectError as error:
                if trio.current_time() >= deadline:
                    raise _no_answer(self.name, error) from error
                await trio.sleep(RETRY_EVERY_S)
            except (httpx.HTTPError, TransportError) as error:
                raise await lost(self.name, error) from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


async def lost(name: str, error: Exception) -> PeerError:
    """The error of a peer that did not answer, or not to the end; told after HOLD_S."""
    await trio.sleep(HOLD_S)
    return _no_answer(name, error, lost=True)


def _no_answer(name: str, error: Exception, *, lost: bool = False) -> PeerError:
    said = str(error) or type(error).__name__
    return PeerError(f"{name} did not answer: {said}", passing=True, lost=lost)


def answered_badly(name: str, path: str, reply: PeerReply) -> PeerError:
    """The error of a peer that answered with an error, in its own words."""
    passing = reply.status >= httpx.codes.INTERNAL_SERVER_ERROR or reply.status in PASSING_STATUSES
    unavailable = reply.status == httpx.codes.SERVICE_UNAVAILABLE
    lost = unavailable and _says_lost(reply.body)
    message = f"{name} answered {reply.status} to {path}: {told(reply.body)}"
    says_when = unavailable and not lost and reply.retry_after is not None
    if says_when or reply.status == httpx.codes.TOO_MANY_REQUESTS:
        return BusyError(message, after_s=retry_after_s(reply.retry_after or ""))
    return PeerError(message, passing=passing, lost=lost)


def reply_of(response: httpx.Response, body: bytes) -> PeerReply:
    """An answer, as far as everybody may want to know it."""
    return PeerReply(response.status_code, body, retry_after=response.headers.get("retry-after"))


def _says_lost(body: bytes) -> bool:
    """Whether a process behind the peer's port is gone."""
    try:
        return msgspec.json.decode(body, type=RefusalBody).error.code == Code.COORDINATOR_UNAVAILABLE
    except NOT_JSON:
        return False


async def _whole(name: str, response: httpx.Response) -> bytes:
    try:
        return await response.aread()
    except (httpx.HTTPError, TransportError) as error:
        raise await lost(name, error) from error


def told(body: bytes) -> str:
    """The peer's words without another layer of quotes, so that chains of servers stay legible."""
    try:
        text = msgspec.json.decode(body, type=str)
    except NOT_JSON:
        text = body.decode(errors="replace")
    return text if len(text) <= MAX_TOLD else text[:MAX_TOLD] + "…"
