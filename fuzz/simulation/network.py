"""Requests between processes of one simulated machine, as ASGI has them: who hears what, and what goes wrong.

How requests get here is no concern of this: over sockets (`sockets.py`), or from client to application
without any (`calls.py`). What can go wrong on the way is decided by a story's `Fault`s.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import trio
from attrs import define, field

from fuzz.simulation.exchange import LATE_S, OF_THE_REPLY, Caller, Exchange, Head, Nobody
from fuzz.simulation.request import Request
from fuzz.simulation.story import Door, Fault, How

_ON_THE_WAY: Final = frozenset[How | None]({"never arrives", "hangs", "busy", "gateway"})
_LATER: Final = OF_THE_REPLY | {"late", "twice", "stray"}  # than it arrives
BUSY: Final = b'{"error":{"code":"busy","detail":"so many are at work"}}'
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
        """What is to happen to this request, which is the next through its door, and where that is."""
        door = request.door
        self._passed[door] += 1
        nth = self._passed[door]
        how = next((one.how for one in self.faults if one.nth == nth and one.door == door), None)
        return how, f"{door} {nth} {request.kind}"

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
        if how is not None and how not in _LATER:
            self.watch.strikes(how, place)
        if how in _ON_THE_WAY:
            return await self._answer_instead(how, caller)
        if how == "gateway after":
            await _hear_of(504, b"try later\n", caller)
        if how == "late":
            await trio.sleep(LATE_S)
            self.watch.strikes(how, place)
        if how == "twice":
            host.start(self._again, host, request, place)
        if how == "unnoticed":
            await caller.cut()
        is_alone = how in {"unnoticed", "gateway after", "stray"}
        exchange = Exchange(request, Nobody() if is_alone else caller, self, how, place)
        self.watch.arrives(request)
        if how == "stray":
            await caller.cut()
            await trio.sleep(LATE_S)
            self.watch.strikes(how, place)
            self.watch.strays(request)
        await host.app(exchange.scope(), exchange.receive, exchange.send)
        await exchange.is_read()
        return exchange.whole and not exchange.is_heard_by_nobody

    async def _answer_instead(self, how: How | None, caller: Caller) -> bool:
        """Of what reaches no application."""
        if how == "hangs":
            await caller.hung_up()
        elif how == "busy":
            await _hear_of(503, BUSY, caller)
        elif how == "gateway":
            await _hear_of(503, b"try later\n", caller)
        return how in {"busy", "gateway"}

    async def _again(self, host: Host, request: Request, place: str) -> None:
        await trio.sleep(AGAIN_S)
        self.watch.strikes("twice", place)
        once_more = Request(request.host, request.method, request.path, request.headers, request.body)
        exchange = Exchange(once_more, Nobody(), self)
        if request.door == "run":
            once_more.overtaken = True
        else:
            self.watch.arrives(once_more)
        await host.app(exchange.scope(), exchange.receive, exchange.send)


async def _hear_of(status: int, body: bytes, caller: Caller) -> None:
    await caller.hear(Head(status, ((b"content-length", b"%d" % len(body)),)), body, more=False)
