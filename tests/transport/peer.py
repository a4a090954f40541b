"""A peer that answers with raw bytes: on loopback sockets, or in memory under simulated time."""

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable

import trio
import trio.testing

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Script = Callable[[trio.abc.Stream], Awaitable[None]]


async def read_request(stream: trio.abc.Stream) -> bytes:
    """One request with its content-length body; empty when the other side closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = bytes(await stream.receive_some(65536))
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        body += bytes(await stream.receive_some(65536))
    return head + b"\r\n\r\n" + body


def answering(*replies: bytes) -> Script:
    """Answers each request of a connection with the next of `replies`, then closes."""

    async def script(stream: trio.abc.Stream) -> None:
        for reply in replies:
            if not await read_request(stream):
                return
            await stream.send_all(reply)

    return script


@contextlib.asynccontextmanager
async def peer(script: Script, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """The URL of a server on loopback that runs `script` for each connection."""

    async def serve(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            async with stream:
                await script(stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(functools.partial(trio.serve_tcp, serve, 0, host=host))
        port = listeners[0].socket.getsockname()[1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}/run"
        nursery.cancel_scope.cancel()


class Memory:
    """A network in memory: `connect` for a Transport; `connected` counts the connections made."""

    def __init__(self, nursery: trio.Nursery, script: Script) -> None:
        self.nursery, self.script = nursery, script
        self.connected: list[tuple[str, int, bool]] = []

    async def connect(self, host: str, port: int, tls: bool) -> trio.abc.Stream:  # noqa: FBT001  # see Connect
        await trio.lowlevel.checkpoint()
        self.connected.append((host, port, tls))
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self._serve, theirs)
        return ours

    async def _serve(self, stream: trio.abc.Stream) -> None:
        async with stream:
            with contextlib.suppress(trio.BrokenResourceError):
                await self.script(stream)
