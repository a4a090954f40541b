"""One request at an application and its answer, as ASGI has them, and what may become of the answer."""

import re
from typing import Final, NamedTuple, Protocol

import trio

from fuzz.simulation.request import OK, Headers, Request
from fuzz.simulation.story import How

LATE_S: Final = 40.0
_BUFFERED_S: Final = 1.0  # an answer lies where its reader is
_INSTEAD: Final = {"fails": b'{"_ng_failure_class":"judge_invalid"}', "unwritten": b'{"_ng_no_persist":true}'}
_LIES: Final = {
    "nonsense": lambda body: b"?" * len(body),
    "another's": lambda body: re.sub(rb'"boot":"[^"]*"', lambda found: found[0][:8] + b"?" * 16 + b'"', body),
}
OF_THE_REPLY: Final = frozenset({"reply lost", "late reply", "buffered", *_INSTEAD, *_LIES})


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


class Exchange:
    """One request at one application, as ASGI has it."""

    def __init__(self, request: Request, caller: Caller, network, how: How | None = None, place: str = ""):
        self.request, self.caller, self.network = request, caller, network
        self.whole = False
        self.lost, self.late = how == "reply lost", how == "late reply"
        self.buffer: list[tuple[Head | None, bytes, bool]] | None = None  # sent, and not read yet
        if how == "buffered":
            self.buffer = []
        self.instead = _INSTEAD.get(how or "")  # of the reply of an episode that has ended
        self.lie = _LIES.get(how or "")
        self._fault, self._has_struck = (how, place), False
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
        if self.lost or self.late or self.buffer is not None:
            self._strikes()

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
        """Something becomes of the answer, now that there is one."""
        if not self._has_struck:
            self._has_struck = True
            self.network.watch.strikes(*self._fault)

    async def is_read(self):
        """Have what is buffered read."""
        if self.buffer is not None:
            await trio.sleep(_BUFFERED_S)
            for head, body, more in self.buffer:
                await self.caller.hear(head, body, more=more)
