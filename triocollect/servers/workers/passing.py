"""A request passed on to another process of the same server, over a Unix socket, and its answer.

One connection carries one request at a time and is kept for the next. Body and answer go as they are; a
caller that goes away closes the connection, by which the other end hears of it.
"""

import logging
from typing import Final, cast, final

import msgspec
import trio

from triocollect.errors import PeerError
from triocollect.participant.asgi import App, Message, Scope
from triocollect.servers.workers.framed import Framed

_log: Final = logging.getLogger("triocollect.servers")

Header = tuple[str, str]  # latin-1, as on the wire


class Passed(msgspec.Struct, frozen=True, array_like=True):
    """The head of a request: of ASGI's scope what an application looks at."""

    method: str
    path: str
    query: str
    headers: tuple[Header, ...]


class Answered(msgspec.Struct, frozen=True, array_like=True):
    """The head of an answer."""

    status: int
    headers: tuple[Header, ...]


_FAILED: Final = Answered(500, (("content-type", "text/plain; charset=utf-8"),))
_encode: Final = msgspec.json.Encoder().encode
_passed: Final = msgspec.json.Decoder(Passed).decode
_answered: Final = msgspec.json.Decoder(Answered).decode


def text_of(headers: object) -> tuple[Header, ...]:
    """ASGI's pairs of bytes as text."""
    pairs = cast("list[tuple[bytes, bytes]]", headers)
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs)


def bytes_of(headers: tuple[Header, ...]) -> list[tuple[bytes, bytes]]:
    """And back."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


@final
class Passer:
    """The way to one other process, called `name` in messages, which listens at `path`."""

    def __init__(self, name: str, path: str) -> None:
        self._name: Final = name
        self._path: Final = path
        self._idle: Final[list[Framed]] = []

    async def ask(self, request: Passed, body: bytes) -> tuple[Answered, bytes]:
        """Pass it on and wait for the answer. Raises PeerError where it may have been taken and none came."""
        way = await self._sent(_encode(request), body)
        whole = False
        try:
            head, answer = await way.read(), await way.read()
            whole = head is not None and answer is not None
        finally:
            if whole:
                self._idle.append(way)
            else:
                await way.close()
        if head is None or answer is None:
            raise self._lost()
        return _answered(head), answer

    async def _sent(self, head: bytes, body: bytes) -> Framed:
        """A connection on which all of the request went; one that breaks before has carried none."""
        while True:
            reused = bool(self._idle)
            way = self._idle.pop() if reused else await self._connected()
            sent = False
            try:
                await way.write(head, body)
                sent = True
            except OSError:
                if not reused:
                    raise self._lost() from None
            finally:
                if not sent:
                    await way.close()
            if sent:
                return way

    async def _connected(self) -> Framed:
        try:
            return Framed(await trio.open_unix_socket(self._path))
        except OSError:
            raise self._lost() from None

    async def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            await self._idle.pop().close()

    def _lost(self) -> PeerError:
        return PeerError(f"{self._name} ended before it had answered", passing=True)


async def serve_passed(app: App, listener: trio.SocketListener) -> None:
    """Answer what is passed on here, until cancelled."""

    async def serve(stream: trio.SocketStream) -> None:
        way = Framed(stream)
        try:
            while (head := await way.read()) is not None and (body := await way.read()) is not None:
                if not await _Exchange(way, _passed(head), body).run(app):
                    return
        finally:
            await way.close()

    await trio.serve_listeners(serve, [listener])


@final
class _Exchange:
    """One request that was passed on here."""

    def __init__(self, way: Framed, request: Passed, body: bytes) -> None:
        self._way: Final = way
        self._request: Final = request
        self._body: bytes | None = body
        self._start: Message = {}
        self._answer: Final = bytearray()
        self._sent = False

    async def run(self, app: App) -> bool:
        """Let the application answer; whether the connection can carry another request."""
        try:
            await app(self._scope(), self._receive, self._send)
        except Exception as error:  # noqa: BLE001  # one request's fault must not end the others'
            _log.error("%s: %s", type(error).__name__, error)
            if not self._sent:  # else whoever asked would take this process for dead
                await self._answered(_FAILED, b"Internal Server Error")
        return self._sent

    def _scope(self) -> Scope:
        request = self._request
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.path.encode(),
            "query_string": request.query.encode("latin-1"),
            "root_path": "",
            "headers": bytes_of(request.headers),
            "client": None,
            "server": None,
        }

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not await self._way.ended():  # its next request, as the answer to this one is there
            await trio.sleep_forever()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._answer.extend(cast("bytes", message.get("body", b"")))
        if message.get("more_body", False) or self._sent:
            return
        head = Answered(cast("int", self._start["status"]), text_of(self._start.get("headers", ())))
        await self._answered(head, bytes(self._answer))

    async def _answered(self, head: Answered, body: bytes) -> None:
        try:
            await self._way.write(_encode(head), body)
            self._sent = True
        except OSError:
            return  # the caller is gone
