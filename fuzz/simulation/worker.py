"""An inference worker that cuts well, after a while, too slowly, or not as it says."""

import json
from collections.abc import Callable
from typing import Final, Literal

import trio

from fuzz.simulation.story import Story
from triocollect.protocol.inference import CUTS

Manner = Literal["well", "later", "slowly", "lies"]

LATER_S: Final = 0.7  # longer than a prepare of all takes, and shorter than a model server waits
SLOW_S: Final = 8.0  # longer than a model server waits, and shorter than a row takes
_MANNERS: Final[tuple[Manner, ...]] = ("well", "well", "later", "slowly", "lies")
_LIES: Final[tuple[Callable[[dict], list[dict]], ...]] = (
    lambda one: [one, one],
    lambda one: [],
    lambda one: [{**one, "tokens": one.get("tokens", 0) + 1}],
    lambda one: [{**one, "key": f"{'ab' * 32}:0"}],
    lambda one: [{"outcome": "cut", "call_id": one["call_id"], "key": f"{'cd' * 32}:1", "tokens": 1}],
    lambda one: [one, {"outcome": "finished", "call_id": "nobody's"}],
)


def manner_of(story: Story) -> Manner:
    """How the worker of a story cuts: no draw of its own, so that stories stay what they were."""
    return _MANNERS[story.dice % len(_MANNERS)]


class Cutting:
    """The worker's application, whose receipts come in this manner."""

    user_middleware = ()

    def __init__(self, app, manner: Manner):
        self._app, self._manner, self._lies = app, manner, 0
        self.state = app.state

    async def __call__(self, scope, receive, send):
        if scope.get("path") != f"/v1{CUTS}" or self._manner == "well":
            await self._app(scope, receive, send)
        elif self._manner == "later":
            await self._app(scope, receive, _late(send))
        elif self._manner == "slowly":
            await trio.sleep(SLOW_S)
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, self._lying(send))

    def _lying(self, send):
        async def lie(message):
            if message["type"] == "http.response.start":
                headers = [(name, value) for name, value in message["headers"] if name != b"content-length"]
                message = {**message, "headers": headers}
            else:
                message = {**message, "body": self._lie(message["body"])}
            await send(message)

        return lie

    def _lie(self, body: bytes) -> bytes:
        told = []
        for one in json.loads(body)["calls"]:
            told += _LIES[self._lies % len(_LIES)](one)
            self._lies += 1
        return json.dumps({"calls": told}).encode()


def _late(send):
    """What is staged takes time to be durable."""

    async def later(message):
        if message["type"] == "http.response.start":
            await trio.sleep(LATER_S)
        await send(message)

    return later
