"""Opening a connection."""

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, final

import trio

from triocollect.errors import NotSentError
from triocollect.transport.connection import Connection
from triocollect.transport.origin import Origin
from triocollect.transport.wire import wire_over

Connect = Callable[[str, int, bool], Awaitable[trio.abc.Stream]]  # host, port, tls


@final
class Dialer:
    """Opens connections by name, IPv4 or IPv6 address, with TLS where the origin asks for it."""

    def __init__(
        self, *, connect: Connect | None, ssl_context: ssl.SSLContext | None, max_reply_bytes: int
    ) -> None:
        self._connect: Final = connect or self._open
        self._ssl_context = ssl_context
        self._max_reply_bytes = max_reply_bytes

    async def dial(self, origin: Origin, timeout_s: float) -> Connection:
        """Raises NotSentError: `dns`, `refused`, `unreachable`, `tls`, `connect_timeout`."""
        peer = str(origin)
        with trio.move_on_after(timeout_s):
            try:
                stream = await self._connect(*origin)
            except (OSError, trio.BrokenResourceError, UnicodeError) as failure:
                raise _not_connected(peer, failure) from failure
            return Connection(wire_over(stream), origin, self._max_reply_bytes)
        raise NotSentError(f"{peer}: no connection within {timeout_s:g} s", kind="connect_timeout")

    async def _open(self, host: str, port: int, tls: bool) -> trio.abc.Stream:  # noqa: FBT001  # see Connect
        stream = await trio.open_tcp_stream(host, port)
        # trio's low-water mark makes a socket look full early; whole requests shall go in one call
        with contextlib.suppress(OSError):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)
        if not tls:
            return stream
        if self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()
        encrypted = trio.SSLStream(stream, self._ssl_context, server_hostname=host, https_compatible=True)
        try:
            await encrypted.do_handshake()
        except BaseException:
            stream.socket.close()
            raise
        return encrypted


def _not_connected(peer: str, failure: Exception) -> NotSentError:
    for reason in (failure.__cause__, failure):
        match reason:
            case ssl.SSLError():
                return NotSentError(f"{peer}: TLS failed: {reason.reason or reason}", kind="tls")
            case socket.gaierror() | UnicodeError():
                return NotSentError(f"{peer}: the name cannot be resolved: {reason}", kind="dns")
            case trio.BrokenResourceError():
                return NotSentError(f"{peer}: the connection broke during the TLS handshake", kind="tls")
            case ConnectionRefusedError() | BaseExceptionGroup(exceptions=(ConnectionRefusedError(), *_)):
                return NotSentError(f"{peer}: connection refused", kind="refused")
            case BaseExceptionGroup(exceptions=(OSError() as first, *_)):
                return NotSentError(f"{peer}: {first.strerror or first}", kind="unreachable")
            case _:
                pass
    return NotSentError(f"{peer}: {failure}", kind="unreachable")
