"""A backend that is known, and how it is reached."""

from collections.abc import Mapping
from typing import Self

from attrs import evolve, field, frozen

from triocollect.protocol.identity import CAPTURE_KEY
from triocollect.servers.model.backends.ways import Findings, Ways
from triocollect.servers.model.calls import Call
from triocollect.servers.peers import Peer


@frozen
class Line:
    """`peer` is at the root of its URL; `headers` go with each request. `ways`: decided on `seen`."""

    peer: Peer
    headers: Mapping[str, str] = field(repr=False)  # a key may be among them
    seen: Findings
    ways: Ways

    @property
    def chat(self) -> str:
        """The path of its chat completions."""
        return f"{self.seen.api}/chat/completions"

    @property
    def responses(self) -> str:
        """The path of its Responses API, where it has one."""
        return f"{self.seen.api}/responses"

    def of(self, call: Call) -> Self:
        """The same, where each request says whose it is."""
        if call.episode is None:
            return self
        return evolve(self, headers={**self.headers, CAPTURE_KEY: call.episode.capture_key})
