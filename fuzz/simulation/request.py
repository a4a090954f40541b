"""A request as it reaches a server, and what it was answered with."""

from functools import cached_property
from typing import Any, Final

import msgspec
from attrs import define

from fuzz.simulation.story import Door

PREFIX: Final = "/checkpoint/v1/"
OK: Final = 200
Headers = tuple[tuple[bytes, bytes], ...]


@define(slots=False)
class Request:
    """A request as it reaches a server, and the status it was answered with."""

    host: str
    method: str
    path: str
    headers: Headers
    body: bytes
    status: int | None = None
    reply: bytes = b""
    reply_headers: Headers = ()
    overtaken: bool = False  # by a later attempt of the same rollout, or by itself, before it arrived

    @cached_property
    def call(self) -> Any:
        """What it says."""
        return msgspec.json.decode(self.body) if self.body else {}

    @property
    def answer(self) -> Any:
        """What it was answered with."""
        return msgspec.json.decode(self.reply)

    @cached_property
    def door(self) -> Door:
        if self.path.startswith(PREFIX):
            return "control"
        if self.path == "/run":
            return "run"
        return "other" if self.method == "GET" or self.path == "/aggregate_metrics" else "peer"

    @cached_property
    def kind(self) -> str:
        """What it asks for, without names of rollouts."""
        return self.path.removeprefix(PREFIX) if not self.path.startswith("/ng-rollout") else "/responses"

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)
