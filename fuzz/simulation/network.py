"""Requests between processes of one simulated machine, as ASGI has them: who hears what, and what goes wrong.

How requests get here is no concern of this: over sockets (`sockets.py`), or from client to application
without any (`calls.py`). What can go wrong on the way is decided by a story's `Fault`s.
"""

import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

import trio
from attrs import define, field

from fuzz.simulation.request import OK, Headers, Request
from fuzz.simulation.story import Door, Fault, How

INSTEAD: Final = {"fails": b'{"_ng_failure_class":"judge_invalid"}', "unwritten": b'{"_ng_no_persist":true}'}
BUSY: Final = b'{"error":{"code":"busy","detail":"so many are at work"}}'
LATE_S: Final = 40.0
BUFFERED_S: Final = 1.0  # an answer lies where its reader is
AGAIN_S: Final = 3.0  # from a request to the same once more


class Watch(Protocol):
    """Who looks on."""

    def tries(self, request: Request) -> None:
        """Its caller would like to connect; a server that is away refuses that."""

    def asks(self, request: Request) -> None:
        """It sets out."""

    def arrives(self, request: Request) -> None:
        """At a server."""

    def strays(self, request: Request) -> None:
        """One that was sent long ago arrives now."""

    def answers(self, request: Request, *, heard: bool) -> None:
        """The answer is on its way back; nobody will hear it, or its caller may."""

    def strikes(self, kind: str, place: str) -> None:
        """Something goes wrong."""


class Head(NamedTuple):
    """The beginning of an answer."""

    status: int
    headers: Headers


class Caller(Protocol):
    """Who waits for an answer."""

    async def hear(self, head: Head | None, body: bytes, *, more: bool) -> None:
        """A piece of the answer; the first one comes with the head."""

    async def hung_up(self) -> None:
        """Returns when nobody waits any more."""

    async def cut(self) -> None:
        """The connection breaks."""


class Nobody:
    """The caller of what is heard by nobody, and who is never noticed to be gone."""

    async def hear(self, head: Head | None, body: bytes, *, more: bool) -> None:
        pass

    async def hung_up(self) -> None:
        await trio.sleep_forever()

    async def cut(self) -> None:
        pass


class Host(Protocol):
    """A server process: what it serves, and how work is begun that ends with it."""

    app: Callable[..., Awaitable[None]]

    async def accepts(self) -> "Host | None":
        """Which process takes the next connection."""

    def start(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Raises RuntimeError where it has ended."""


@define
class Network:
    """Hosts by name. Each way takes any time up to `latency_s`, that of a control call up to `control_s`.

    That of a frame from a coordinator to a worker, or back, up to `link_s`.
    """

    watch: Watch
    latency_s: float
    control_s: float
    link_s: float
    dice: random.Random
    faults: tuple[Fault, ...] = ()
    hosts: dict[str, Host] = field(factory=dict)
    _passed: Counter[Door] = field(factory=Counter)

    def begin(self, watch: Watch, faults: tuple[Fault, ...]) -> None:
        """Another life."""
        self.watch, self.faults = watch, faults
        self._passed.clear()

    def _fault(self, request: Request) -> tuple[How | None, str]:
        """What happens to this request, which is the next through its door, and where that is.

        What happens to an answer is counted when there is one.
        """
        door = request.door
        self._passed[door] += 1
        nth = self._passed[door]
        how = next((one.how for one in self.faults if one.nth == nth and one.door == door), None)
        place = f"{door} {nth} {request.kind}"
        if how is not None and how not in INSTEAD and how not in _LIES:
            self.watch.strikes(how, place)
        return how, place

    async def travel(self, request: Request) -> None:
        """One way."""
        longest = self.control_s if request.door == "control" else self.latency_s
        if longest:
            await trio.sleep(round(longest * self.dice.random(), 3))

    def link_lasts(self) -> float:
        """The way of a frame."""
        return round(self.link_s * self.dice.random(), 3) if self.link_s else 0.0

    async def reach(self, host: str) -> Host | None:
        """Who takes a connection; None: nobody is there."""
        there = self.hosts.get(host)
        return None if there is None else await there.accepts()

    async def carry(self, host: Host, request: Request, caller: Caller) -> bool:
        """To the application and back; whether the connection may be used again."""
        self.watch.asks(request)
        how, place = self._fault(request)
        await self.travel(request)
        if how in {"never arrives", "hangs"}:
            if how == "hangs":
                await caller.hung_up()
            return False
        if how == "busy":
            await caller.hear(Head(503, ((b"content-length", b"%d" % len(BUSY)),)), BUSY, more=False)
            return True
        if how in {"gateway", "gateway after"}:
            head = Head(503 if how == "gateway" else 504, ((b"content-length", b"10"),))
            await caller.hear(head, b"try later\n", more=False)
            if how == "gateway":
                return True
        if how == "late":
            await trio.sleep(LATE_S)
        if how == "twice":
            host.start(self._again, host, request)
        if how == "unnoticed":
            await caller.cut()
        is_alone = how in {"unnoticed", "gateway after", "stray"}
        exchange = _Exchange(request, Nobody() if is_alone else caller, self)
        exchange.lost, exchange.late = how == "reply lost", how == "late reply"
        exchange.buffer = [] if how == "buffered" else None
        exchange.instead = INSTEAD.get(how or "")
        exchange.lie = _LIES.get(how or "")
        exchange.fault = how, place
        self.watch.arrives(request)
        if how == "stray":
            await caller.cut()
            await trio.sleep(LATE_S)
            self.watch.strays(request)
        await host.app(exchange.scope(), exchange.receive, exchange.send)
        await exchange.is_read()
        return exchange.whole and not exchange.is_heard_by_nobody

    async def _again(self, host: Host, request: Request) -> None:
        await trio.sleep(AGAIN_S)
        once_more = Request(request.host, request.method, request.path, request.headers, request.body)
        exchange = _Exchange(once_more, Nobody(), self)
        if request.door == "run":
            once_more.overtaken = True
        else:
            self.watch.arrives(once_more)
        await host.app(exchange.scope(), exchange.receive, exchange.send)


class _Exchange:
    """One request at one application, as ASGI has it."""

    def __init__(self, request: Request, caller: Caller, network: Network):
        self.request, self.caller, self.network = request, caller, network
        self.lost = self.whole = self.late = False
        self.buffer: list[tuple[Head | None, bytes, bool]] | None = None  # sent, and not read yet
        self.instead: bytes | None = None  # of the reply of an episode that has ended
        self.lie = None
        self.fault: tuple[How | None, str] | None = None  # not counted yet
        self._heard = False
        self._head: Head | None = None

    @property
    def is_heard_by_nobody(self):
        return self.lost or isinstance(self.caller, Nobody)

    def scope(self):
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self.request.method,
            "scheme": "http",
            "path": self.request.path,
            "raw_path": self.request.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": list(self.request.headers),
            "client": ("collector", 1),
            "server": (self.request.host, 80),
        }

    async def receive(self):
        if not self._heard:
            self._heard = True
            return {"type": "http.request", "body": self.request.body, "more_body": False}
        if self.whole:
            await trio.sleep_forever()
        await self.caller.hung_up()
        return {"type": "http.disconnect"}

    def _begin(self, message):
        self.request.status = message["status"]
        headers = tuple((bytes(name), bytes(value)) for name, value in message.get("headers", ()))
        if message["status"] != OK:
            self.instead = None
        elif self.instead is not None:
            headers = ((b"content-length", b"%d" % len(self.instead)),)
        self.request.reply_headers = headers
        self._head = Head(message["status"], headers)

    async def send(self, message):
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        body, more = bytes(message.get("body", b"")), message.get("more_body", False)
        if self.instead is not None:
            if more:
                return
            body = self.instead
            self._strikes()
        self.request.reply += body
        if self.lie is not None and self.request.status == OK:
            true, body = body, self.lie(body)  # the length stays
            if body != true:
                self._strikes()
        if self._head is not None:
            self.network.watch.answers(self.request, heard=not self.is_heard_by_nobody)
            await self.network.travel(self.request)
            if self.late:
                await trio.sleep(LATE_S)
        head, self._head = self._head, None
        self.whole = not more
        if self.buffer is not None:
            self.buffer.append((head, body, more))
        elif not self.lost:
            await self.caller.hear(head, body, more=more)

    def _strikes(self):
        """The answer is another one."""
        if self.fault is not None:
            self.network.watch.strikes(*self.fault)
            self.fault = None

    async def is_read(self):
        """Have what is buffered read."""
        if self.buffer is not None:
            await trio.sleep(BUFFERED_S)
            for head, body, more in self.buffer:
                await self.caller.hear(head, body, more=more)


_LIES = {
    "nonsense": lambda body: b"?" * len(body),
    "another's": lambda body: re.sub(rb'"boot":"[^"]*"', lambda found: found[0][:8] + b"?" * 16 + b'"', body),
}
