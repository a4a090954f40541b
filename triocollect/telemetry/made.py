"""A span as a value, and where it stands: nothing else is passed on from one process to another. Pure.

A span is made when it has ended. Identifiers are bytes, 16 of a trace and 8 of a span, never all zero.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

Attributes: TypeAlias = Mapping[str, str | int | float | bool]
# What a detector of somebody else's says may be a list.
ResourceAttributes: TypeAlias = Mapping[str, str | int | float | bool | Sequence[str | int | float | bool]]
SpanKind: TypeAlias = Literal["internal", "client", "server"]

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
_MOST_STATE: Final = 512  # characters that are passed on (W3C Trace Context, level 1)
_SAID: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


class Stand(msgspec.Struct, frozen=True, gc=False):
    """A span that others can be below. `state`: what another vendor wants to have passed on."""

    trace: bytes
    span: bytes
    sampled: bool = True
    remote: bool = False
    state: str = ""

    @property
    def traceparent(self) -> str:
        return traceparent(self.trace, self.span, sampled=self.sampled)

    @property
    def headers(self) -> dict[str, str]:
        """What another server is told."""
        said = {TRACEPARENT: self.traceparent}
        return {**said, TRACESTATE: self.state} if self.state else said


class Sort(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What many spans have in common. It is equal to itself alone: what is made of it may be kept by it."""

    name: str
    kind: SpanKind
    about: Attributes


class Span(msgspec.Struct, frozen=True, gc=False):
    """A span that has ended. Times in nanoseconds since 1970; `fault`: what ended it as an error."""

    sort: Sort
    at: Stand
    parent: Stand | None
    began: int
    ended: int
    about: Attributes  # beside what its sort says
    links: tuple[Stand, ...] = ()
    fault: str | None = None


def traceparent(trace: bytes, span: bytes, *, sampled: bool) -> str:
    """W3C Trace Context, level 1."""
    return f"00-{trace.hex()}-{span.hex()}-{'01' if sampled else '00'}"


def stand_of(headers: Mapping[str, str]) -> Stand | None:
    """Where the sender of a request stood (names in lower case); None where it says nothing that holds."""
    if (said := headers.get(TRACEPARENT)) is None or (hit := _SAID.fullmatch(said.strip())) is None:
        return None
    trace, span = bytes.fromhex(hit[1]), bytes.fromhex(hit[2])
    if not (any(trace) and any(span)):
        return None
    state = headers.get(TRACESTATE, "")
    sampled = bool(int(hit[3], 16) & 1)
    return Stand(trace, span, sampled, remote=True, state=state if len(state) <= _MOST_STATE else "")
