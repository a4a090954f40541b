"""HTTP/1.1 as a server reads it: the real client of rows over socket pairs, no port anywhere."""

import contextlib
import socket

import trio

from fuzz.simulation.exchange import Head
from fuzz.simulation.network import Host, Network
from fuzz.simulation.request import Request

BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


async def open_to(network: Network, host: str) -> tuple[trio.SocketStream, trio.SocketStream]:
    """A connection to a host: our end, and that of the other side. Raises ConnectionRefusedError."""
    await trio.lowlevel.checkpoint()
    if (there := await network.reach(host)) is None:
        raise ConnectionRefusedError(host)
    ours, theirs = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair())
    try:
        there.start(serve, network, there, host, theirs)
    except RuntimeError:  # the nursery of a process that just ended takes nobody in
        await trio.aclose_forcefully(ours)
        await trio.aclose_forcefully(theirs)
        raise ConnectionRefusedError(host) from None
    return ours, theirs


async def serve(network: Network, there: Host, host: str, stream: trio.SocketStream) -> None:
    """The requests of one connection, one after the other."""
    data = b""
    with contextlib.suppress(*BROKEN):
        async with stream:
            while True:
                while (end := data.find(b"\r\n\r\n")) < 0:
                    if not (more := await stream.receive_some()):
                        return
                    data += more
                head, data = data[:end], data[end + 4 :]
                length = _length(head)
                while len(data) < length:
                    if not (more := await stream.receive_some()):
                        return
                    data += more
                request, data = _request(host, head, data[:length]), data[length:]
                if not await network.carry(there, request, _OverSocket(stream)):
                    return


class _OverSocket:
    def __init__(self, stream: trio.SocketStream):
        self._stream, self._chunked = stream, False

    async def hear(self, head: Head | None, body: bytes, *, more: bool) -> None:
        data = b"" if head is None else self._written(head)
        if self._chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        if data or body:
            with contextlib.suppress(*BROKEN):
                await self._stream.send_all(data + body)

    def _written(self, head: Head) -> bytes:
        self._chunked = all(name.lower() != b"content-length" for name, _ in head.headers)
        lines = b"".join(b"%b: %b\r\n" % line for line in head.headers)
        if self._chunked:
            lines += b"transfer-encoding: chunked\r\n"
        return b"HTTP/1.1 %d x\r\n%b\r\n" % (head.status, lines)

    async def hung_up(self) -> None:
        with contextlib.suppress(*BROKEN):
            assert not await self._stream.receive_some(), "nobody sends a second request before the answer"

    async def cut(self) -> None:
        await self._stream.aclose()


def _request(host: str, head: bytes, body: bytes) -> Request:
    first, *lines = head.split(b"\r\n")
    method, path, _ = first.decode().split(" ")
    headers = tuple((name.lower(), value.strip()) for name, value in (line.split(b":", 1) for line in lines))
    return Request(host, method, path, headers, body)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, value = line.split(b":", 1)
        if name.lower() == b"content-length":
            return int(value)
    return 0
