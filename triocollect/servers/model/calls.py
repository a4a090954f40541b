"""Policy calls as values: which are under way, and what came of them."""

import uuid
from collections.abc import Mapping
from typing import Final

import msgspec

from triocollect.protocol.ids import EpisodeId


class Call(msgspec.Struct, frozen=True):
    """One policy call: whose it is (None: nobody's) and what is asked, already in the worker's words.

    `parent` is the call that its caller knew last, `request_sha256` the digest of what was asked.
    """

    id: str
    episode: EpisodeId | None
    request: bytes
    parent: str | None = None
    request_sha256: str = ""


class Calls:
    """The calls that this process serves now. A call is in it from its admission until its delivery."""

    def __init__(self) -> None:
        self._serving: Final[dict[str, Call]] = {}

    @property
    def serving(self) -> Mapping[str, Call]:
        """The calls under way, by id."""
        return self._serving

    def admit(
        self, episode: EpisodeId | None, request: bytes, parent: str | None = None, request_sha256: str = ""
    ) -> Call:
        """A new call with an id of its own."""
        call = Call(uuid.uuid4().hex, episode, request, parent, request_sha256)
        self._serving[call.id] = call
        return call

    def leave(self, call: Call) -> None:
        """The call is over: delivered, failed, or its caller is gone."""
        del self._serving[call.id]
