"""The HTTP/1.1 client of rows."""

import ssl
from typing import Final

import trio

from triocollect.errors import NotSentError
from triocollect.transport.connection import Connection, Message
from triocollect.transport.dial import Connect, Dialer
from triocollect.transport.origin import Destination, Headers, Origin, parts
from triocollect.transport.pool import IdleConnections
from triocollect.transport.reply import Reply

_MAX_TARGETS: Final = 1024


class Client:
    """Sends each request once: no redirect is followed, no proxy or cookie used, nothing is ever sent again.

    Deadlines are the caller's cancel scopes, except `connect_timeout_s` (seconds). A reply is at most
    `max_reply_bytes` long, counted after decoding. `connect` replaces the network.
    """

    def __init__(
        self,
        *,
        connect_timeout_s: float = 10.0,
        max_reply_bytes: int = 256 << 20,
        ssl_context: ssl.SSLContext | None = None,
        connect: Connect | None = None,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._dialer = Dialer(connect=connect, ssl_context=ssl_context, max_reply_bytes=max_reply_bytes)
        self._idle: dict[Origin, IdleConnections] = {}
        self._targets: dict[str, Destination] = {}
        self._closed = False

    async def post(self, url: str, body: bytes, headers: Headers = ()) -> Reply:
        """Send `body` as JSON, unless a content-type is given, and return the whole reply.

        Raises NotSentError, ReplyLostError, ReplyRefusedError.
        """
        target = self._targets.get(url) or self._target(url)
        head = target.head(b"POST", headers, len(body))
        return await self._exchange(target.origin, Message(parts(head, body)))

    async def get(self, url: str, headers: Headers = ()) -> Reply:
        """Raises NotSentError, ReplyLostError, ReplyRefusedError."""
        target = self._targets.get(url) or self._target(url)
        return await self._exchange(target.origin, Message((target.head(b"GET", headers, None),)))

    async def aclose(self) -> None:
        """Close the idle connections at once; those in use are closed when their exchange ends."""
        self._closed = True
        for idle in self._idle.values():
            await idle.close()

    async def _exchange(self, origin: Origin, message: Message) -> Reply:
        connection = await self._connection(origin, None)
        try:
            reply = await connection.exchange(message)
        except BaseException:
            await connection.close()
            raise
        if connection.reusable:
            await self._keep(connection)
        else:
            await connection.close()
        return reply

    async def _connection(self, origin: Origin, timeout_s: float | None) -> Connection:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise NotSentError(f"{origin}: the transport is closed", kind="shut")
        idle = self._idle.get(origin)
        connection = await idle.take() if idle is not None else None
        return connection or await self._dialer.dial(
            origin, self._connect_timeout_s if timeout_s is None else timeout_s
        )

    async def _keep(self, connection: Connection) -> None:
        if self._closed:
            await connection.close()
            return
        idle = self._idle.get(connection.origin)
        if idle is None:
            idle = self._idle[connection.origin] = IdleConnections()
        await idle.put(connection)

    def _target(self, url: str) -> Destination:
        if len(self._targets) >= _MAX_TARGETS:
            self._targets.clear()
        target = self._targets[url] = Destination(url)
        return target
