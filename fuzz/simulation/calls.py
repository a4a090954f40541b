"""Calls of httpx straight to an application: what servers ask each other, and a controller participants.

A call ends as one over a real connection does: refused where nobody is there, broken where the server or the
connection dies before the answer is whole; and who gives up has hung up.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable

import httpx
import trio

from fuzz.simulation.exchange import Head
from fuzz.simulation.network import Host, Network
from fuzz.simulation.request import Request


class Calls(httpx.AsyncBaseTransport):
    """What one process asks of others for as long as it lives."""

    def __init__(self, network: Network, is_dead: Callable[[], bool]):
        self._network, self._is_dead = network, is_dead

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_dead():
            raise httpx.WriteError("who asks is dead", request=request)  # and tries nothing again
        headers = tuple((name.lower(), value) for name, value in request.headers.raw)
        assert isinstance(request.stream, httpx.ByteStream)
        path = request.url.raw_path.decode()
        asked = Request(request.url.host, request.method, path, headers, b"".join(request.stream))
        self._network.watch.tries(asked)
        if (there := await self._network.reach(request.url.host)) is None:
            raise httpx.ConnectError(f"{request.url.host}: connection refused", request=request)
        call = _Call(request.url.host)
        try:
            there.start(call.carry, self._network, there, asked)
        except RuntimeError:
            raise httpx.ConnectError(f"{request.url.host}: connection refused", request=request) from None
        try:
            head = await call.answered()
        except BaseException:
            call.hang_up()
            raise
        if head is None:
            raise httpx.RemoteProtocolError(call.broke, request=request)
        if call.whole:
            return _Whole(head, b"".join(call.pieces))
        return httpx.Response(head.status, headers=list(head.headers), stream=_Body(call, request))


class _Call:
    """One, seen from both ends."""

    def __init__(self, host: str):
        self.broke = f"{host} closed the connection before its reply was whole"
        self.head: Head | None = None
        self.pieces = deque[bytes]()
        self.whole = self.over = False
        self._news, self._gone = trio.Event(), trio.Event()

    async def carry(self, network: Network, there: Host, request: Request) -> None:
        """A task of the server."""
        try:
            await network.carry(there, request, self)
        finally:
            self.over = True
            self._news.set()

    async def hear(self, head: Head | None, body: bytes, *, more: bool) -> None:
        if self.over or self._gone.is_set():
            return
        self.head = head or self.head
        if body:
            self.pieces.append(body)
        self.whole = not more
        self._news.set()

    async def hung_up(self) -> None:
        await self._gone.wait()

    async def cut(self) -> None:
        self.over = True
        self._news.set()

    async def answered(self) -> Head | None:
        """The head; None where the connection broke."""
        while self.head is None and not self.over:
            await self.news()
        return self.head

    async def news(self) -> None:
        """Anything."""
        await self._news.wait()
        self._news = trio.Event()

    def hang_up(self) -> None:
        self._gone.set()


class _Whole(httpx.Response):
    """An answer of which nothing is to come; most are, and to read them the long way takes long."""

    def __init__(self, head: Head, body: bytes):
        super().__init__(head.status, headers=list(head.headers), stream=httpx.ByteStream(body))
        self.headers.encoding = "ascii"  # nobody has to find out
        self._whole = body

    async def aread(self) -> bytes:
        return self._whole

    async def aiter_bytes(self, _chunk_size: int | None = None) -> AsyncIterator[bytes]:
        yield self._whole

    async def aclose(self) -> None:
        pass


class _Body(httpx.AsyncByteStream):
    def __init__(self, call: _Call, request: httpx.Request):
        self._call, self._request = call, request

    def __aiter__(self):
        return self

    async def __anext__(self) -> bytes:
        call = self._call
        while not call.pieces:
            if call.whole:
                raise StopAsyncIteration
            if call.over:
                raise httpx.RemoteProtocolError(call.broke, request=self._request)
            await call.news()
        return call.pieces.popleft()

    async def aclose(self) -> None:
        if not self._call.whole:
            self._call.hang_up()
