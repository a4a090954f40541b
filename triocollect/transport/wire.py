"""The byte stream under one connection: a bare socket for plain TCP, any trio stream for the rest.

A request over trio's own socket object costs a trip through the scheduler for sending and another one for
receiving. Here sending to a socket with room is a plain call, and receiving is one wait for readiness.
"""

import contextlib
import socket
from typing import ClassVar, Final, Protocol, final

import trio

RECEIVE_BYTES: Final = 64 << 10
_MODEST_BYTES: Final = 64 << 10  # what a stream that tells nothing of its buffer is given at once
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class Wire(Protocol):
    """One open connection. Every failure is an OSError or trio.ClosedResourceError."""

    TELLS_UNSENT: ClassVar[bool]  # a failing `start` has sent nothing

    async def start(self, data: bytes) -> bytes | memoryview:
        """Send without waiting for the peer to read; returns what is left to send."""

    async def send(self, data: bytes | memoryview) -> None:
        """Send all."""

    async def receive(self) -> bytes:
        """The next bytes, empty at the end. Always a checkpoint."""

    def is_quiet(self) -> bool:
        """Whether an idle connection is still open and has nothing to say."""

    async def close(self) -> None:
        """Close at once: never waits for the peer, never raises, works in a cancelled scope."""


@final
class SocketWire:
    """Plain TCP."""

    __slots__ = ("_fd", "_socket")
    TELLS_UNSENT: ClassVar[bool] = True

    def __init__(self, sock: socket.socket) -> None:
        self._socket, self._fd = sock, sock.fileno()
        sock.settimeout(0)
        for level, option, value in _KEEPALIVE:
            with contextlib.suppress(OSError):  # a Unix socket has none of them
                sock.setsockopt(level, option, value)

    async def start(self, data: bytes) -> bytes | memoryview:
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        return b"" if sent == len(data) else memoryview(data)[sent:]

    async def send(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._fd)

    async def receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            with contextlib.suppress(BlockingIOError):
                return self._socket.recv(RECEIVE_BYTES)

    def is_quiet(self) -> bool:
        return _is_quiet(self._socket)

    async def close(self) -> None:
        trio.lowlevel.notify_closing(self._fd)
        self._socket.close()


@final
class StreamWire:
    """TLS, or whatever stream the caller's `connect` brings."""

    __slots__ = ("_socket", "_stream")
    TELLS_UNSENT: ClassVar[bool] = False

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        inner: object = stream
        while isinstance(inner, trio.SSLStream):
            inner = inner.transport_stream
        self._socket = inner.socket if isinstance(inner, trio.SocketStream) else None

    async def start(self, data: bytes) -> bytes | memoryview:
        if len(data) > _MODEST_BYTES:
            return data
        await self.send(data)
        return b""

    async def send(self, data: bytes | memoryview) -> None:
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError as broken:
            raise _broken(broken) from broken

    async def receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        except trio.BrokenResourceError as broken:
            raise _broken(broken) from broken

    def is_quiet(self) -> bool:
        if self._socket is None:
            return True
        with socket.socket(fileno=self._socket.fileno()) as peek:
            try:
                return _is_quiet(peek)
            finally:
                peek.detach()

    async def close(self) -> None:
        with trio.CancelScope(shield=True) as at_once, contextlib.suppress(Exception):
            at_once.cancel()
            await self._stream.aclose()


def wire_over(stream: trio.abc.Stream) -> Wire:
    """The fastest wire for what `connect` brought."""
    if not isinstance(stream, trio.SocketStream):
        return StreamWire(stream)
    sock = stream.socket
    return SocketWire(socket.socket(sock.family, sock.type, sock.proto, fileno=sock.detach()))


def _is_quiet(sock: socket.socket) -> bool:
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False  # the end, or bytes that nobody asked for


def _broken(broken: trio.BrokenResourceError) -> OSError:
    cause = broken.__cause__
    return cause if isinstance(cause, OSError) else ConnectionResetError(str(broken))
