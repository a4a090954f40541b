"""What a participant may answer that is not so: a table of lies, between real participants and a controller.

A lie is told about an answer that was really given, instead of one, or by way of time: late, lost, twice.
"""

import json
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import httpx
import trio

from fuzz.files.harms import HARMS
from tests.checkpoint.network import Network
from triocollect.protocol.refusals import Code, status_of

Tell: TypeAlias = Callable[["Liars", httpx.Request], Awaitable[httpx.Response]]
Json: TypeAlias = dict[str, object]

PHASES: Final = ("open", "preparing", "prepared", "committing", "committed", "restoring", "restored", "lost")
KEYS: Final = ("0-0", "1-0", "2-0", "0-0-a1", "9-9", "", "../x", "-a1")
_PATHS: Final = (
    "../../etc/passwd", "/etc/passwd", "", ".", "ckpt-000001/../collector.lock", "ckpt-000001//x", "a\0b",
    "ckpt-000001/participants/model/one/manifest.json", "ckpt-000001/collection.json",
)  # fmt: skip
_NUMBERS: Final = (-1, 0, 1, 7, 1 << 31, 1 << 53, 1 << 70, 10**30, 10**4299)
_STATUSES: Final = (201, 204, 302, 400, 401, 403, 404, 405, 409, 410, 422, 429, 500, 501, 502, 503, 504)


def _kind_of(dice: random.Random, value: object) -> object:
    """Another value of the same kind, or none at all."""
    match value:
        case bool():
            return not value
        case int():
            return dice.choice((value + 1, value - 1, *_NUMBERS))
        case list():
            return dice.choice(([], value + value, [*value, dice.choice(KEYS)], value[1:], list(KEYS) * 50))
        case dict():
            return {name: _kind_of(dice, one) if dice.random() < 0.4 else one for name, one in value.items()}
        case str():
            return dice.choice((*PHASES, *_PATHS, value[:-1] + "x", value.upper(), "0" * 64))
        case _:
            return dice.choice((1, "open", 1 << 70))


def another(dice: random.Random, answer: Json) -> Json:
    """Well-formed, and one field is not so."""
    name = dice.choice(list(answer))
    if name in {"directory", "lock_sha256"}:
        return answer  # a server that is elsewhere keeps the run from starting, and rightly
    return {**answer, name: _kind_of(dice, answer[name])}


async def _untrue(liars: "Liars", request: httpx.Request) -> httpx.Response:
    answer = await liars.truth(request)
    fields = json.loads(answer.content)
    told = another(liars.dice, fields)
    return answer if told == fields else httpx.Response(answer.status_code, content=json.dumps(told).encode())


async def _nonsense(liars: "Liars", request: httpx.Request) -> httpx.Response:
    answer = await liars.truth(request)
    harm = HARMS[liars.dice.choice(list(HARMS))]
    return httpx.Response(answer.status_code, content=harm(liars.dice, answer.content))


async def _status(liars: "Liars", request: httpx.Request) -> httpx.Response:
    answer = await liars.truth(request) if liars.dice.random() < 0.5 else None
    content = b"<html>no</html>" if answer is None else answer.content
    return httpx.Response(liars.dice.choice(_STATUSES), content=content)


async def _refusal(liars: "Liars", request: httpx.Request) -> httpx.Response:
    if liars.dice.random() < 0.5:
        await liars.truth(request)
    code = liars.dice.choice(list(Code))
    error = {
        "code": code.value,
        "detail": "so it is",
        "phase": "open",
        "operation": 3,
        "retired_through": 1 << 70,
    }
    status = status_of(code) if liars.dice.random() < 0.8 else liars.dice.choice(_STATUSES)
    return httpx.Response(status, json={"error": error})


async def _unreachable(liars: "Liars", request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody there", request=request)


async def _reply_lost(liars: "Liars", request: httpx.Request) -> httpx.Response:
    await liars.truth(request)
    raise httpx.ReadError("the connection broke", request=request)


async def _stuck(liars: "Liars", request: httpx.Request) -> httpx.Response:
    await trio.sleep_forever()
    raise AssertionError


async def _late(liars: "Liars", request: httpx.Request) -> httpx.Response:
    answer = await liars.truth(request)
    await trio.sleep(liars.dice.choice((0.3, 5, 19, 40)))
    return answer


async def _delivered_late(liars: "Liars", request: httpx.Request) -> httpx.Response:
    await trio.sleep(liars.dice.choice((0.3, 5, 19, 40)))
    return await liars.truth(request)


async def _delivered_after_all(liars: "Liars", request: httpx.Request) -> httpx.Response:
    """The connection breaks, and the call arrives when nobody waits for it any more."""
    liars.later(request, liars.dice.choice((0.1, 3, 30, 100)))
    raise httpx.ReadError("the connection broke", request=request)


async def _twice(liars: "Liars", request: httpx.Request) -> httpx.Response:
    await liars.truth(request)
    return await liars.truth(request)


async def _of_before(liars: "Liars", request: httpx.Request) -> httpx.Response:
    """An answer to an earlier call, of this participant or of any."""
    call = liars.call(request)
    own = [content for told, content in liars.told if told == call]
    content = liars.dice.choice(own or [content for _, content in liars.told] or [b"{}"])
    if liars.dice.random() < 0.5:
        await liars.truth(request)
    return httpx.Response(200, content=content)


async def _of_another(liars: "Liars", request: httpx.Request) -> httpx.Response:
    """What somebody else answered to the same question."""
    await liars.truth(request)
    route = liars.call(request).partition(" ")[2]
    others = [content for told, content in liars.told if told.endswith(f" {route}")]
    return httpx.Response(200, content=liars.dice.choice(others or [b"{}"]))


async def _huge(liars: "Liars", request: httpx.Request) -> httpx.Response:
    answer = await liars.truth(request)
    padding = liars.dice.choice((b" " * (1 << 20), b'{"more":"' + b"x" * (1 << 20) + b'",'))
    content = (
        answer.content.replace(b"{", padding, 1) if padding.startswith(b"{") else padding + answer.content
    )
    return httpx.Response(answer.status_code, content=content)


async def installs_less(liars: "Liars", request: httpx.Request) -> httpx.Response:
    """It has installed all, and does not say so of each."""
    answer = await liars.truth(request)
    fields = json.loads(answer.content)
    return httpx.Response(answer.status_code, json={**fields, "installed": fields["installed"][1:]})


LIES: Final[dict[str, Tell]] = {
    "untrue": _untrue, "nonsense": _nonsense, "another status": _status, "refusal": _refusal,
    "unreachable": _unreachable, "reply lost": _reply_lost, "stuck": _stuck, "late": _late,
    "delivered late": _delivered_late, "delivered after all": _delivered_after_all, "twice": _twice,
    "of an earlier call": _of_before, "of somebody else": _of_another, "huge": _huge,
}  # fmt: skip
WORDS: Final = {  # lies only where they differ from the truth; the others are about time
    "untrue", "nonsense", "another status", "refusal", "of an earlier call", "of somebody else", "huge",
}  # fmt: skip
_TRUTH: Final = "truth"


class Liars(Network):
    """Real participants, and what comes of their answers on the way. `chance`: of a lie at each call."""

    def __init__(self, nursery: trio.Nursery, root, dice: random.Random) -> None:
        super().__init__(nursery, root)
        self.dice, self.chance = dice, 0.0
        self.always: dict[str, Tell] = {}  # what is told whenever that call comes
        self.told: list[tuple[str, bytes]] = []  # the true answers
        self.lied: list[tuple[str, str]] = []  # which lie, to which call
        self._later = nursery

    def call(self, request: httpx.Request) -> str:
        """The participant and the route."""
        return f"{request.url.host} {request.url.path.rpartition('/')[2]}"

    async def truth(self, request: httpx.Request) -> httpx.Response:
        """What it really answers, whole."""
        answer = await super().handle_async_request(request)
        content = await answer.aread()
        self.told.append((self.call(request), content))
        request.extensions[_TRUTH] = (answer.status_code, content)
        return httpx.Response(answer.status_code, content=content)

    def later(self, request: httpx.Request, seconds: float) -> None:
        """It arrives when this is over."""

        async def arrive() -> None:
            await trio.sleep(seconds)
            await self.truth(request)

        self._later.start_soon(arrive)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The truth, or a lie."""
        if (told := self.always.get(self.call(request))) is not None:
            return await told(self, request)
        if self.dice.random() >= self.chance:
            return await self.truth(request)
        lie = self.dice.choice(list(LIES))
        if lie not in WORDS:
            self.lied.append((lie, self.call(request)))
            return await LIES[lie](self, request)
        answer = await LIES[lie](self, request)
        if request.extensions.get(_TRUTH) != (answer.status_code, answer.content):
            self.lied.append((lie, self.call(request)))
        return answer
