"""HTTP/1.1 between processes of one simulated machine: the real clients over socket pairs, no port anywhere.

What can go wrong on the way is decided by `Fault`s: the nth request through a door never arrives, is answered
into nowhere, or is carried out by a server that never notices that its caller has given up; or what was done
is answered with nonsense, or with an answer that was another process's. A rollout may also be answered with
a failure, or with the wish that nothing be written.
"""

import contextlib
import random
import re
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

import trio
from attrs import define, field, frozen

Door = Literal["run", "control", "peer", "other"]
How = Literal["never arrives", "reply lost", "unnoticed", "nonsense", "another's", "fails", "unwritten"]
INSTEAD = {"fails": b'{"_ng_failure_class":"judge_invalid"}', "unwritten": b'{"_ng_no_persist":true}'}
PREFIX = "/checkpoint/v1/"
OK = 200


@frozen
class Fault:
    """What happens to the `nth` request (from 1) through a door."""

    door: Door
    nth: int
    how: How


@define
class Request:
    """A request as it reaches a server, and the status it was answered with."""

    host: str
    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    status: int | None = None
    reply: bytes = b""

    @property
    def door(self) -> Door:
        if self.path.startswith(PREFIX):
            return "control"
        if self.path == "/run":
            return "run"
        return "other" if self.method == "GET" or self.path == "/aggregate_metrics" else "peer"

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)


class Watch(NamedTuple):
    """Who looks on: a request arrives, its answer is on its way back."""

    arrives: Callable[[Request], None]
    answered: Callable[[Request], None]


Application = Callable[..., Awaitable[None]]
Accept = Callable[[trio.SocketStream], None]


@define
class Network:
    """Hosts by name. Each way takes any time up to `latency_s`, that of a control call up to `control_s`."""

    watch: Watch
    latency_s: float
    control_s: float
    faults: frozenset[Fault] = frozenset()
    hosts: dict[str, Accept] = field(factory=dict)
    down: bool = False  # the machine has no power
    _passed: Counter[Door] = field(factory=Counter)
    _dice: random.Random = field(factory=lambda: random.Random(1))

    async def connect(self, host: str, port: int, tls: bool) -> trio.SocketStream:  # noqa: FBT001  # see Connect
        await trio.lowlevel.checkpoint()
        if self.down or (accept := self.hosts.get(host)) is None:
            raise ConnectionRefusedError(host)
        ours, theirs = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair())
        try:
            accept(theirs)
        except RuntimeError:  # the nursery of a process that just ended takes nobody in
            await trio.aclose_forcefully(ours)
            await trio.aclose_forcefully(theirs)
            raise ConnectionRefusedError(host) from None
        return ours

    def fault(self, request: Request) -> How | None:
        """What happens to this request, which is the next through its door."""
        self._passed[request.door] += 1
        nth = self._passed[request.door]
        found = (one.how for one in self.faults if (one.door, one.nth) == (request.door, nth))
        return next(found, None)

    async def travel(self, request: Request) -> None:
        """One way."""
        longest = self.control_s if request.door == "control" else self.latency_s
        await trio.sleep(round(longest * self._dice.random(), 3))

    async def serve(self, app: Application, host: str, stream: trio.SocketStream) -> None:
        """The requests of one connection, one after the other."""
        data = b""
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
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
                    if not await self._carry(app, request, stream):
                        return

    async def _carry(self, app: Application, request: Request, stream: trio.SocketStream) -> bool:
        how = self.fault(request)
        await self.travel(request)
        if how == "never arrives":
            return False
        exchange = _Exchange(request, stream, self)
        if how == "unnoticed":
            exchange.mute = True
            await stream.aclose()
        exchange.lost = how == "reply lost"
        exchange.instead = INSTEAD.get(how)
        exchange.lie = _LIES.get(how)
        self.watch.arrives(request)
        await app(exchange.scope(), exchange.receive, exchange.send)
        return exchange.whole and not (exchange.mute or exchange.lost)


class _Exchange:
    """One request at one application, as ASGI has it."""

    def __init__(self, request: Request, stream: trio.SocketStream, network: Network):
        self.request, self.stream, self.network = request, stream, network
        self.mute = self.lost = self.whole = False
        self.instead: bytes | None = None  # of the reply of an episode that has ended
        self.lie = None
        self._heard = False
        self._head = b""
        self._chunked = False

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
        if self.mute or self.whole:
            await trio.sleep_forever()
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            assert not await self.stream.receive_some(), "nobody sends a second request before the answer"
        return {"type": "http.disconnect"}

    def _begin(self, message):
        self.request.status = message["status"]
        headers = list(message.get("headers", ()))
        if message["status"] != OK:
            self.instead = None
        elif self.instead is not None:
            headers = [(b"content-length", b"%d" % len(self.instead))]
        self._chunked = all(name.lower() != b"content-length" for name, _ in headers)
        if self._chunked:
            headers.append((b"transfer-encoding", b"chunked"))
        lines = b"".join(b"%b: %b\r\n" % (bytes(name), bytes(value)) for name, value in headers)
        self._head = b"HTTP/1.1 %d x\r\n%b\r\n" % (message["status"], lines)

    async def send(self, message):
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        body, more = bytes(message.get("body", b"")), message.get("more_body", False)
        if self.instead is not None:
            if more:
                return
            body = self.instead
        self.request.reply += body
        if self.lie is not None and self.request.status == OK:
            body = self.lie(body)  # the length stays
        if self._head:
            self.network.watch.answered(self.request)
            await self.network.travel(self.request)
        if self._chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        data, self._head = self._head + body, b""
        self.whole = not more
        if data and not (self.mute or self.lost):
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.stream.send_all(data)


_LIES = {
    "nonsense": lambda body: b"?" * len(body),
    "another's": lambda body: re.sub(rb'"boot":"[^"]*"', lambda found: found[0][:8] + b"?" * 16 + b'"', body),
}


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
