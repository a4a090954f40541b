"""Where a request goes: URLs taken apart once, and the first lines of a request written once."""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

import httpx

from triocollect.errors import NotSentError
from triocollect.transport.encoding import ACCEPTED
from triocollect.version import VERSION

Headers = Sequence[tuple[bytes, bytes]]

_JOINED_BYTES: Final = 16 << 10
_PORT_LIMIT: Final = 1 << 16
_PORTS: Final = {"http": 80, "https": 443}
_OURS: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection", b"expect"))
_TOKEN: Final = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DEFAULTS: Final = (
    (b"user-agent", b"triocollect/" + VERSION.encode()),
    (b"accept", b"*/*"),
    (b"accept-encoding", ACCEPTED),
)
_POST_DEFAULTS: Final = (*_DEFAULTS, (b"content-type", b"application/json"))


class Origin(NamedTuple):
    """What a connection can be shared between."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @classmethod
    def of(cls, url: httpx.URL) -> "Origin":
        """Raises NotSentError (`bad_url`) for what is not http or https, or names no host."""
        if url.scheme not in _PORTS or not url.host:
            raise NotSentError(f"{str(url)!r} is not an http or https URL", kind="bad_url")
        port = _PORTS[url.scheme] if url.port is None else url.port
        if not 0 < port < _PORT_LIMIT:
            raise NotSentError(f"{str(url)!r}: {port} is not a port", kind="bad_url")
        return cls(url.raw_host.decode("ascii"), port, url.scheme == "https")


@final
class Target:
    """One URL that requests go to again and again."""

    __slots__ = ("_host", "_path", "_starts", "origin")

    def __init__(self, url: str) -> None:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as wrong:
            raise NotSentError(f"{url!r}: {wrong}", kind="bad_url") from None
        if parsed.userinfo:
            raise NotSentError("a URL with a user name or password is not supported", kind="bad_url")
        self.origin = Origin.of(parsed)
        self._host, self._path = parsed.netloc, parsed.raw_path
        self._starts: dict[tuple[bytes, ...], bytes] = {}

    def head(self, method: bytes, headers: Headers, length: int | None) -> bytes:
        """The head of a request with the caller's headers; the first lines come from the last one like it."""
        shape = (method, *[name for name, _ in headers])
        start = self._starts.get(shape) or self._start(shape, headers)
        if headers:
            start += header_lines(headers)
        return start + b"\r\n" if length is None else b"%bcontent-length: %d\r\n\r\n" % (start, length)

    def _start(self, shape: tuple[bytes, ...], headers: Headers) -> bytes:
        given = {name.lower() for name, _ in headers}
        if taken := given & _OURS:
            raise NotSentError(f"the header {min(taken)!r} is the transport's own", kind="bad_request")
        method = shape[0]
        check_names(headers)
        defaults = _POST_DEFAULTS if method == b"POST" else _DEFAULTS
        lines = [(b"host", self._host), *[pair for pair in defaults if pair[0] not in given]]
        start = self._starts[shape] = request_line(method, self._path) + header_lines(lines)
        return start


def parts(head: bytes, body: bytes) -> tuple[bytes, ...]:
    """Head and body as they are sent: in one piece while copying is cheaper than a second call."""
    return (head + body,) if len(body) <= _JOINED_BYTES else (head, body)


def request_line(method: bytes, path: bytes) -> bytes:
    """Raises NotSentError (`bad_request`) for a method that is not a token."""
    if not method or not _TOKEN.issuperset(method):
        raise NotSentError(f"{method!r} is not an HTTP method", kind="bad_request")
    return b"%b %b HTTP/1.1\r\n" % (method, path)


def check_names(headers: Headers) -> None:
    """Raises NotSentError (`bad_request`) for a name that is not a token."""
    for name, _ in headers:
        if not name or not _TOKEN.issuperset(name):
            raise NotSentError(f"{name!r} is not a header name", kind="bad_request")


def header_lines(headers: Headers) -> bytes:
    """The lines of headers whose names were checked.

    Raises NotSentError (`bad_request`) for a value that would begin another line.
    """
    lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers) or b"\0" in lines:
        raise NotSentError("a header value holds a line break or a NUL", kind="bad_request")
    return lines
