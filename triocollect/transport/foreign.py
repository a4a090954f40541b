"""The transport as httpx sees it: requests taken apart, replies as streams, errors under httpx's names."""

import math
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Final, Self, final

import httpx

from triocollect.errors import NotSentError, ReplyLostError, TransportError
from triocollect.transport.connection import UNHURRIED, Connection, Message, Patience
from triocollect.transport.origin import (
    PORT_LIMIT,
    PORTS,
    Address,
    Origin,
    check_names,
    header_lines,
    parts,
    request_line,
)

_ERRORS: Final[Mapping[str, type[httpx.TransportError]]] = {
    "bad_url": httpx.UnsupportedProtocol,
    "bad_request": httpx.LocalProtocolError,
    "connect_timeout": httpx.ConnectTimeout,
    "read_timeout": httpx.ReadTimeout,
    "write_timeout": httpx.WriteTimeout,
    "closed": httpx.RemoteProtocolError,
    "short_body": httpx.RemoteProtocolError,
}


url_of: Final = lru_cache(maxsize=1024)(httpx.URL)  # the same few are asked again and again


def request_of(method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> httpx.Request:
    """As httpx makes it of a content, with less work for each; None: there is no body."""
    at = url_of(url)
    lines = {"host": at.netloc.decode("ascii"), **headers}
    if body is not None:
        lines["content-length"] = str(len(body))
    request = httpx.Request(method, at, headers=lines, stream=httpx.ByteStream(body or b""))
    request.read()  # its `content` can be asked for
    return request


def as_httpx(error: TransportError, request: httpx.Request) -> httpx.TransportError:
    """The httpx error that says the same: what was not sent is a ConnectError, as httpx has it."""
    fallback: type[httpx.TransportError] = httpx.RemoteProtocolError
    if isinstance(error, NotSentError):
        fallback = httpx.ConnectError
    elif isinstance(error, ReplyLostError):
        fallback = httpx.ReadError
    return _ERRORS.get(error.kind, fallback)(str(error), request=request)


def patience_of(request: httpx.Request) -> tuple[float | None, Patience]:
    """The request's own timeouts in seconds: to connect (None: the transport's), to read, to write."""
    timeouts: object = request.extensions.get("timeout")
    if not isinstance(timeouts, Mapping):
        return None, UNHURRIED
    connect, read, write = (timeouts.get(side) for side in ("connect", "read", "write"))
    return connect, Patience(math.inf if read is None else read, math.inf if write is None else write)


def address_of(url: str) -> Address:
    """Raises NotSentError (`bad_url`) for what is no http or https URL that can be called as it stands."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as wrong:
        raise NotSentError(f"{url!r}: {wrong}", kind="bad_url") from None
    if parsed.userinfo:
        raise NotSentError("a URL with a user name or password is not supported", kind="bad_url")
    return Address(origin_of(parsed), parsed.netloc, parsed.raw_path)


def origin_of(url: httpx.URL) -> Origin:
    """Raises NotSentError (`bad_url`) for what is not http or https, or names no host."""
    if url.scheme not in PORTS or not url.host:
        raise NotSentError(f"{str(url)!r} is not an http or https URL", kind="bad_url")
    port = PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < PORT_LIMIT:
        raise NotSentError(f"{str(url)!r}: {port} is not a port", kind="bad_url")
    return Origin(url.raw_host.decode("ascii"), port, url.scheme == "https")


def message_of(request: httpx.Request) -> Message:
    """Raises NotSentError (`bad_request`) for what cannot be written as HTTP/1.1."""
    headers = request.headers.raw
    method = request.method.encode("ascii", "replace")
    check_names(headers)
    head = request_line(method, request.url.raw_path) + header_lines(headers) + b"\r\n"
    chunked = b"chunked" in request.headers.get("transfer-encoding", "").lower().encode()
    if isinstance(request.stream, httpx.ByteStream) and not chunked:
        body = b"".join(request.stream)
        return Message(parts(head, body), bodiless=method == b"HEAD")
    assert isinstance(request.stream, httpx.AsyncByteStream)
    stream = _chunks(request.stream) if chunked else request.stream
    return Message((head,), stream, bodiless=method == b"HEAD")


async def _chunks(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        if piece:  # an empty chunk would be the end
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


@final
class ReplyStream(httpx.AsyncByteStream):
    """The body of a reply as it arrives, undecoded.

    Closed after the end, the connection is kept for others; closed earlier, so is the connection.
    """

    def __init__(
        self, connection: Connection, request: httpx.Request, keep: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self._connection, self._request, self._keep = connection, request, keep
        self._open = True

    def __aiter__(self) -> Self:
        return self

    # Not a generator: one that is left early would be cleaned up by the garbage collector, and warned of.
    async def __anext__(self) -> bytes:
        if not self._open:
            raise httpx.StreamClosed
        parser = self._connection.parser
        while not parser.pieces:
            if parser.done:
                raise StopAsyncIteration
            try:
                await self._connection.read()
            except TransportError as error:
                await self.aclose()
                raise as_httpx(error, self._request) from error
            except BaseException:
                await self.aclose()
                raise
        return parser.take_body()

    async def aclose(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._connection.reusable:
            await self._keep(self._connection)
        else:
            await self._connection.close()
