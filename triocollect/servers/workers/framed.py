"""Frames over a socket between two of our processes: the length of each, then the frame."""

from typing import Final, final

import anyio
import trio

from triocollect.transport.wire import wire_over

_LENGTH: Final = 8
_ENDS: Final = (OSError, trio.ClosedResourceError)


@final
class Framed:
    """Reads and writes frames. A socket that has room is written to without a trip through the scheduler."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._wire: Final = wire_over(stream)
        self._buffer: Final = bytearray()

    async def write(self, *frames: bytes) -> None:
        """All of them, in one go. Raises OSError or trio.ClosedResourceError."""
        pieces = (piece for frame in frames for piece in (len(frame).to_bytes(_LENGTH), frame))
        await self._wire.send(b"".join(pieces))

    async def read(self) -> bytes | None:
        """The next one; None where the other end is gone."""
        head = await self._exactly(_LENGTH)
        return None if head is None else await self._exactly(int.from_bytes(head))

    async def ended(self) -> bool:
        """Wait until the other end is gone, or (False) has begun to say something."""
        return not self._buffer and not await self._more()

    async def close(self) -> None:
        """At once, also where everything is cancelled."""
        await self._wire.close()

    async def _exactly(self, length: int) -> bytes | None:
        while len(self._buffer) < length:
            if not await self._more():
                return None
        found = bytes(self._buffer[:length])
        del self._buffer[:length]
        return found

    async def _more(self) -> bool:
        try:
            more = await self._wire.receive()
        except _ENDS:
            return False
        self._buffer.extend(more)
        return bool(more)


@final
class SocketLink:
    """The link between coordinator and worker, over a socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._framed: Final = Framed(stream)

    async def send(self, frame: bytes) -> None:
        """One frame. Raises anyio.BrokenResourceError."""
        try:
            await self._framed.write(frame)
        except _ENDS as error:
            raise anyio.BrokenResourceError from error

    async def receive(self) -> bytes:
        """The next frame. Raises anyio.EndOfStream."""
        if (frame := await self._framed.read()) is None:
            raise anyio.EndOfStream
        return frame

    async def close(self) -> None:
        """At once."""
        await self._framed.close()
