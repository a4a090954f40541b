"""One connection, one exchange at a time."""

import math
from collections.abc import AsyncIterable
from typing import Final, NamedTuple, final

import trio

from triocollect.errors import NotSentError, ReplyLostError
from triocollect.transport.origin import Origin
from triocollect.transport.reply import Reply, ReplyParser
from triocollect.transport.wire import Wire

_FIRST_ERROR_STATUS: Final = 400


class Patience(NamedTuple):
    """How long one wait may take, in seconds. Rows have none: their deadline is the caller's scope."""

    read_s: float = math.inf
    write_s: float = math.inf


UNHURRIED: Final = Patience()


class Message(NamedTuple):
    """A request: the head and its body in as many parts as is cheap, then what is streamed."""

    parts: tuple[bytes, ...]
    stream: AsyncIterable[bytes] | None = None
    bodiless: bool = False  # a HEAD: its reply has no body


@final
class Connection:
    """After any exception the connection is of no use and must be closed."""

    __slots__ = ("_patience", "_peer", "_reading", "_unsent", "_wire", "idle_since", "origin", "parser")

    def __init__(self, wire: Wire, origin: Origin, max_reply_bytes: int) -> None:
        self._wire, self.origin, self._peer = wire, origin, str(origin)
        self.parser = ReplyParser(self._peer, max_reply_bytes)
        self._patience = UNHURRIED
        self._unsent = False
        self._reading: trio.CancelScope | None = None
        self.idle_since = 0.0

    @property
    def reusable(self) -> bool:
        """Whether both sides are at the end of a message and mean to go on."""
        return self.parser.done and self.parser.keep_alive and not self._unsent

    def is_quiet(self) -> bool:
        """Whether an idle connection is still open and has nothing to say."""
        return self._wire.is_quiet()

    async def close(self) -> None:
        """Close at once: never waits for the peer, never raises, works in a cancelled scope."""
        self.parser.forget()
        await self._wire.close()

    async def exchange(self, message: Message) -> Reply:
        """Send, and read the whole reply.

        Raises NotSentError, ReplyLostError, ReplyRefusedError.
        """
        self._patience = UNHURRIED
        self.parser.expect(bodiless=message.bodiless)
        await self._converse(message, whole=True)
        return self.parser.take_reply()

    async def begin(self, message: Message, patience: Patience) -> None:
        """Send, and read the head of the reply; the raw body is read with `read` and `parser.take_body`.

        Raises as `exchange` does, and what iterating the request's body raises.
        """
        self._patience = patience
        self.parser.expect(decode=False, bodiless=message.bodiless)
        await self._converse(message, whole=False)

    async def read(self) -> None:
        """Read once more. Raises ReplyLostError (`read_timeout` too) and ReplyRefusedError."""
        try:
            if self._patience is UNHURRIED:
                data = await self._wire.receive()
            else:
                data = await self._receive_in_time()
        except (OSError, trio.ClosedResourceError) as broken:
            raise _lost(self._peer, broken) from broken
        if data:
            self.parser.feed(data)
        else:
            self.parser.feed_eof()

    async def _converse(self, message: Message, *, whole: bool) -> None:
        self._unsent = nothing_sent = True
        left: list[bytes | memoryview] = []
        try:
            for part in message.parts:
                if rest := part if left else await self._start(part):
                    left.append(rest)
                nothing_sent = False
        except OSError as broken:
            if nothing_sent and self._wire.TELLS_UNSENT:
                raise NotSentError(f"{self._peer}: {broken.strerror}", kind="reset") from broken
            await self._read_until(whole=whole)  # the peer may have replied before it closed
            return
        if left or message.stream is not None:
            await self._send_beside_reading(left, message.stream, whole=whole)
        else:
            self._unsent = False
            await self._read_until(whole=whole)

    async def _read_until(self, *, whole: bool) -> None:
        parser = self.parser
        while not (parser.done if whole else parser.head_done):
            await self.read()

    async def _send_beside_reading(
        self, left: list[bytes | memoryview], stream: AsyncIterable[bytes] | None, *, whole: bool
    ) -> None:
        """A peer may answer early (413) and never read on, so nobody waits here for sending alone."""
        trouble: list[Exception] = []

        async def send() -> None:
            failure = await self._send_left(left, stream)
            if failure is not None:
                trouble.append(failure)
                sending.cancel_scope.cancel()

        async with trio.open_nursery() as sending:
            sending.start_soon(send)
            try:
                await self._read_until(whole=whole)
            except Exception as error:  # noqa: BLE001  # raised again below, outside of any group
                trouble.append(error)
            if whole or trouble or self.parser.status >= _FIRST_ERROR_STATUS:
                sending.cancel_scope.cancel()
        if trouble:
            raise trouble.pop(0)  # not kept in this frame, which the traceback keeps

    async def _send_left(
        self, left: list[bytes | memoryview], stream: AsyncIterable[bytes] | None
    ) -> Exception | None:
        """What went wrong on our side. A peer that stops listening is nothing: reading tells why."""
        try:
            for part in left:
                await self._send(part)
            if stream is not None:
                async for piece in stream:
                    await self._send(piece)
        except (OSError, trio.ClosedResourceError):
            return None
        except Exception as error:  # noqa: BLE001  # the caller's stream may raise anything
            return error
        self._unsent = False
        if self._reading is not None:
            self._reading.deadline = trio.current_time() + self._patience.read_s
        return None

    async def _start(self, part: bytes) -> bytes | memoryview:
        if self._patience is UNHURRIED:
            return await self._wire.start(part)
        with trio.move_on_after(self._patience.write_s):
            return await self._wire.start(part)
        raise self._late("write")

    async def _send(self, data: bytes | memoryview) -> None:
        with trio.move_on_after(self._patience.write_s) as scope:
            await self._wire.send(data)
        if scope.cancelled_caught:
            raise self._late("write")

    async def _receive_in_time(self) -> bytes:
        """The patience for reading begins when everything is sent."""
        with trio.move_on_after(math.inf if self._unsent else self._patience.read_s) as self._reading:
            return await self._wire.receive()
        raise self._late("read")

    def _late(self, side: str) -> ReplyLostError:
        seconds = self._patience.read_s if side == "read" else self._patience.write_s
        return ReplyLostError(
            f"{self._peer}: nothing could be {side} for {seconds:g} s", kind=f"{side}_timeout"
        )


def _lost(peer: str, broken: OSError | trio.ClosedResourceError) -> ReplyLostError:
    match broken:
        case ConnectionError():
            return ReplyLostError(f"{peer} reset the connection before its reply was whole", kind="reset")
        case TimeoutError():  # the keepalive probes went unanswered
            return ReplyLostError(f"{peer} is gone: the connection timed out", kind="timeout")
        case OSError():
            return ReplyLostError(f"{peer}: {broken}", kind="broken")
        case _:
            return ReplyLostError(f"{peer}: the connection was closed on our side", kind="closed")
