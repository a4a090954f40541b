"""Where a request goes: URLs taken apart once, and the head of a request written once, with holes."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, final

from triocollect.errors import NotSentError
from triocollect.transport.encoding import ACCEPTED
from triocollect.version import VERSION

Headers = Sequence[tuple[bytes, bytes]]

_JOINED_BYTES: Final = 16 << 10
PORT_LIMIT: Final = 1 << 16
PORTS: Final = {"http": 80, "https": 443}
_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
# A name in lower case or an IPv4 address, and a path with nothing to quote and no dot at the start of a part.
_PLAIN_URL: Final = re.compile(
    rf"(https?)://([a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*|{_BYTE}(?:\.{_BYTE}){{3}})(?::([1-9][0-9]{{0,4}}))?"
    r"((?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?)"
)
_BREAKS: Final = b"\r\n\0"
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


class Address(NamedTuple):
    """A URL taken apart: whom to connect to, what to call the host there, and what to ask for."""

    origin: Origin
    host: bytes
    path: bytes


@final
class Destination:
    """One URL that requests go to again and again."""

    __slots__ = ("_forms", "_host", "_path", "origin")

    def __init__(self, url: str) -> None:
        self.origin, self._host, self._path = _plain_address(url) or _any_address(url)
        self._forms: dict[tuple[bytes, ...], bytes] = {}

    def head(self, method: bytes, headers: Headers, length: int | None) -> bytes:
        """The head of a request with the caller's headers; all but values comes from the last one like it.

        Raises NotSentError (`bad_request`) for headers that cannot be sent.
        """
        names: list[bytes] = [method]
        values: list[bytes] = []
        for name, value in headers:
            names.append(name)
            values.append(value)
        if length is not None:
            names.append(b"content-length")
            values.append(b"%d" % length)
        shape = tuple(names)
        form = self._forms.get(shape) or self._form(shape, headers)
        check_values(values)
        return form % tuple(values)

    def _form(self, shape: tuple[bytes, ...], headers: Headers) -> bytes:
        """Such a head, with a hole for the value of each header."""
        given = {name.lower() for name, _ in headers}
        if taken := given & _OURS:
            raise NotSentError(f"the header {min(taken)!r} is the transport's own", kind="bad_request")
        method, *names = shape
        check_names(headers)
        defaults = _POST_DEFAULTS if method == b"POST" else _DEFAULTS
        lines = [(b"host", self._host), *[pair for pair in defaults if pair[0] not in given]]
        start = request_line(method, self._path) + header_lines(lines)
        holes = [b"%b: %%b\r\n" % _literal(name) for name in names]
        form = self._forms[shape] = b"%b%b\r\n" % (_literal(start), b"".join(holes))
        return form


def _literal(part: bytes) -> bytes:
    """A part of a form that has no hole."""
    return part.replace(b"%", b"%%")


def _plain_address(url: str) -> Address | None:
    """Nearly every URL there is, read as httpx reads it; None for one that takes more than a look."""
    match = _PLAIN_URL.fullmatch(url)
    if match is None:
        return None
    scheme, host, digits, path = match.groups()
    port = int(digits or PORTS[scheme])
    if port >= PORT_LIMIT:
        return None
    named = host if port == PORTS[scheme] else f"{host}:{port}"
    return Address(Origin(host, port, scheme == "https"), named.encode(), (path or "/").encode())


def _any_address(url: str) -> Address:
    from triocollect.transport.foreign import address_of  # noqa: PLC0415  # httpx takes long to load

    return address_of(url)


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
    """The lines of headers whose names were checked. Raises what `check_values` raises."""
    check_values([value for _, value in headers])
    return b"".join([b"%b: %b\r\n" % pair for pair in headers])


def check_values(values: Sequence[bytes]) -> None:
    """Raises NotSentError (`bad_request`) for a value that would begin another line."""
    said = b"".join(values)
    if said.translate(None, _BREAKS) != said:
        raise NotSentError("a header value holds a line break or a NUL", kind="bad_request")
