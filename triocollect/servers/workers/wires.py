"""Frames over a socket between two of our processes: lengths, then a head as JSON and a body as it is."""

from typing import Final, final

import anyio
import trio

_LENGTH: Final = 8
_READ: Final = 1 << 16


@final
class Wire:
    """Reads and writes runs of bytes that say their own length."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream: Final = stream
        self._buffer: Final = bytearray()

    async def write(self, *parts: bytes) -> None:
        """All of them, in one go. Raises trio.BrokenResourceError or ClosedResourceError."""
        lengths = (piece for part in parts for piece in (len(part).to_bytes(_LENGTH), part))
        await self.stream.send_all(b"".join(lengths))

    async def read(self) -> bytes | None:
        """The next one; None where the other end is gone."""
        head = await self._exactly(_LENGTH)
        return None if head is None else await self._exactly(int.from_bytes(head))

    async def ended(self) -> bool:
        """Wait until the other end is gone, or (False) has begun to say something."""
        try:
            more = b"" if self._buffer else await self.stream.receive_some(_READ)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return True
        self._buffer.extend(more)
        return not self._buffer

    async def _exactly(self, length: int) -> bytes | None:
        buffer = self._buffer
        while len(buffer) < length:
            try:
                more = await self.stream.receive_some(max(_READ, length - len(buffer)))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not more:
                return None
            buffer += more
        found = bytes(buffer[:length])
        del buffer[:length]
        return found


@final
class SocketLink:
    """The link between coordinator and worker, over a socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._wire: Final = Wire(stream)

    async def send(self, frame: bytes) -> None:
        """One frame. Raises anyio.BrokenResourceError."""
        try:
            await self._wire.write(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise anyio.BrokenResourceError from error

    async def receive(self) -> bytes:
        """The next frame. Raises anyio.EndOfStream."""
        if (frame := await self._wire.read()) is None:
            raise anyio.EndOfStream
        return frame
