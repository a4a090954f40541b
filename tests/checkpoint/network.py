"""The network between a collector and its participants, which can lose, delay and lie."""

import httpx
import msgspec
import trio

from tests.participant.harness import inline
from triocollect.participant import (
    ControlPlane,
)

TOKEN = "s3cret"


class Lie:
    """A participant's own answer, changed by a function of its fields."""

    def __init__(self, of):
        self.of = of


class Network(httpx.AsyncBaseTransport):
    """Routes by host name, and lies.

    `faults` has, for a "host route", what its next calls meet: "unreachable", "reply lost", "stuck", a
    function to call first, a Response to give instead, a Lie; None lets one through.
    """

    def __init__(self, nursery, root):
        self._nursery, self._root = nursery, root
        self.planes: dict[str, httpx.AsyncBaseTransport] = {}
        self.heard: list[str] = []
        self.sent: list[tuple[str, dict[str, object]]] = []
        self.faults: dict[str, list[object]] = {}

    async def mount(self, host, server):
        """Start it, or put a new process in its place."""
        plane = ControlPlane(_app, server, server.admission, token=TOKEN, root=self._root, in_thread=inline)
        started = trio.Event()
        self._nursery.start_soon(_lifespan, plane, started)
        await started.wait()
        self.planes[host] = httpx.ASGITransport(plane)

    async def handle_async_request(self, request):
        call = f"{request.url.host} {request.url.path.rpartition('/')[2]}"
        self.heard.append(call)
        if request.method == "POST":
            self.sent.append((call, msgspec.json.decode(request.content)))
        pending = self.faults.get(call)
        fault = pending.pop(0) if pending else None
        if callable(fault):
            answer = fault()
            if answer is not None:
                await answer
        if isinstance(fault, httpx.Response):
            return fault
        if fault == "unreachable" or request.url.host not in self.planes:
            raise httpx.ConnectError("nobody there", request=request)
        if fault == "stuck":
            await trio.sleep_forever()
        response = await self.planes[request.url.host].handle_async_request(request)
        if isinstance(fault, Lie):
            return httpx.Response(200, json=fault.of(msgspec.json.decode(await response.aread())))
        if fault == "reply lost":
            raise httpx.ReadError("the connection broke", request=request)
        return response


async def _lifespan(app, started):
    async def receive():
        if started.is_set():
            await trio.sleep_forever()
        return {"type": "lifespan.startup"}

    async def send(_message):
        started.set()

    await app({"type": "lifespan"}, receive, send)


async def _app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
    else:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"nothing here"})
