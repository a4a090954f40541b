"""Policy calls as values: which are under way, and what came of them."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import trio

from triocollect.protocol.ids import EpisodeId
from triocollect.servers.model.filed import FiledCut


class Call(msgspec.Struct, frozen=True):
    """One policy call: whose it is (None: nobody's) and what is asked, already in the worker's words.

    `parent` is the call that its caller knew last, `request_sha256` the digest of what was asked. `cut`: it
    was under way before, and goes on from there. `constrained`: it must be decoded in one piece.
    """

    id: str
    episode: EpisodeId | None
    request: bytes
    parent: str | None = None
    request_sha256: str = ""
    cut: FiledCut | None = None
    constrained: bool = False


def new_id() -> str:
    """What no other call is called."""
    return uuid.uuid4().hex


class Answer(NamedTuple):
    """The Response object of a call, as JSON. `continued_at`: the token that it was continued at, if it was.

    `continued_by`: by which means, in a word.
    """

    body: bytes
    continued_at: int | None = None
    continued_by: str | None = None


class Calls:
    """The calls that this process serves now. A call is in it from its admission until its delivery."""

    def __init__(self) -> None:
        self._serving: Final[dict[str, Call]] = {}
        self._answers: Final[dict[str, Answer]] = {}
        self._changed = trio.Event()

    @property
    def serving(self) -> Mapping[str, Call]:
        """The calls under way, by id."""
        return self._serving

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What was answered to those of them that are over, and not delivered yet."""
        return self._answers

    def admit(self, call: Call) -> Call:
        """A call begins."""
        self._serving[call.id] = call
        return call

    def answered(self, call: Call, answer: Answer) -> None:
        """The worker has answered it."""
        if call.id in self._serving:
            self._answers[call.id] = answer
            self._tell()

    def leave(self, call: Call) -> None:
        """The call is over: being delivered, failed, or its caller is gone. It can be repeated."""
        self._serving.pop(call.id, None)
        self._answers.pop(call.id, None)
        self._tell()

    async def settled(self, call_ids: Collection[str]) -> Sequence[str]:
        """Return when one of these calls is answered, or over: which are."""
        while not (settled := [one for one in call_ids if one in self._answers or one not in self._serving]):
            await self._changed.wait()
        return settled

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
