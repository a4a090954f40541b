"""What a resources server serves: a stateful environment, or a verifier that keeps nothing. Pure.

A session's state is a plain value (None, or a frozen Struct that JSON can hold), and every move returns a
new one: what a session is can be written down between any two requests, and put back. A stateful one has the
fields `seed`, drawn from the operating system when the session begins, and `effects`, which counts the
changes since, as does its verdict: by them an interrupted session is told from one that was played again.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar, final

import msgspec

from triocollect.protocol.messages import Mode
from triocollect.protocol.values import Json, JsonObject

S = TypeVar("S")
RowT = TypeVar("RowT")


class Step(NamedTuple, Generic[S]):
    """What a tool call leads to. The state is the same object where nothing changed."""

    state: S
    output: Json


class Verdict(msgspec.Struct, frozen=True):
    """What a rollout earned. `details` are further fields of the verify reply."""

    reward: float
    details: JsonObject = {}


class Source(Protocol[S]):
    """One verifier or environment. Bodies come as they arrived; msgspec.DecodeError tells what is wrong."""

    @property
    def mode(self) -> Mode:
        """What a checkpoint takes of a session: its state, or only that it is open."""
        ...

    @property
    def state_type(self) -> type[S]:
        """Of what a session's state is read back as."""
        ...

    @property
    def tools(self) -> frozenset[str]:
        """Names of the tools; none of them is a name of the server's own routes."""
        ...

    def begin(self, row: bytes) -> S:
        """The state of a new session; `row` is the seeding request, of a Gym agent the whole row."""
        ...

    def call(self, state: S, tool: str, arguments: bytes) -> Step[S]:
        """One call of one of `tools`; `arguments` is a JSON object."""
        ...

    def verify(self, state: S, answer: str, row: bytes) -> Verdict:
        """Judge the rollout's last words; `row` is the whole verify request, with the row's own fields."""
        ...


@final
class Verifier(Generic[RowT]):
    """A source that judges by the row alone: no tools, no state."""

    mode: Mode = "stateless"
    state_type: type[None] = type(None)
    tools: frozenset[str] = frozenset()

    def __init__(self, row_type: type[RowT], judge: Callable[[str, RowT], Verdict]) -> None:
        self._row: msgspec.json.Decoder[RowT] = msgspec.json.Decoder(row_type)
        self._judge = judge

    def begin(self, row: bytes) -> None:
        """Nothing to keep."""

    def call(self, state: None, tool: str, arguments: bytes) -> Step[None]:
        """A verifier has no tools."""
        raise NotImplementedError

    def verify(self, state: None, answer: str, row: bytes) -> Verdict:  # noqa: ARG002  # the interface's
        """Judge by the fields of the row."""
        return self._judge(answer, self._row.decode(row))
