"""Spans where something happens; `rows` has those of rows, which come by events."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import Token
from functools import lru_cache
from types import TracebackType
from typing import Final, Self, TypeAlias

from msgspec.structs import replace

from triocollect.telemetry import here, ids
from triocollect.telemetry.here import stand
from triocollect.telemetry.made import Attributes, Sort, Span, SpanKind, Stand, stand_of

Give: TypeAlias = Callable[[Iterable[Span]], None]  # they are made when they are read, by any thread
Wanted: TypeAlias = Callable[[bytes], bool]  # whether a trace that begins here is kept
Now: TypeAlias = Callable[[], int]

_MOST_NAMES: Final = 1024  # no more than these are kept


@lru_cache(_MOST_NAMES)
def _sort(name: str, kind: SpanKind) -> Sort:
    return Sort(name, kind, {})


class Tracing:
    """See `here.Spans`. `give` gets every span that is kept, when it has ended."""

    def __init__(self, give: Give, wanted: Wanted, now: Now = time.time_ns) -> None:
        self._give: Final = give
        self._wanted: Final = wanted
        self._now: Final = now
        self._run: Span | None = None

    @property
    def run(self) -> tuple[Stand, ...]:
        """The run's span, once it has begun: spans of other traces are linked to it."""
        return () if self._run is None else (self._run.at,)

    def begin_run(self, run: str) -> None:
        """From here on spans of this task are below the run's."""
        trace = ids.run_trace(run)
        at = Stand(trace, new_span(), self._wanted(trace))
        self._run = Span(_sort("run", "internal"), at, None, self._now(), 0, {"triocollect.run": run})
        stand.set(at)

    def end_run(self) -> None:
        """It is over."""
        if self._run is not None:
            self.end(self._run, None)

    def span(self, name: str, kind: SpanKind, attributes: Attributes) -> AbstractContextManager[object]:
        """A child of the span around it. What raises ends it as an error, with its words."""
        about = {f"triocollect.{key}": value for key, value in attributes.items()}
        return self._below(stand.get(), name, kind, about)

    def served(
        self, name: str, headers: Mapping[str, str], attributes: Attributes
    ) -> AbstractContextManager[here.Serving]:
        """A child of the caller's span, where the headers name one."""
        return self._below(stand_of(headers), name, "server", attributes)

    def end(self, span: Span, fault: BaseException | None) -> None:
        """A span that had begun is over; being cancelled is no fault."""
        if span.at.sampled:
            said = f"{type(fault).__name__}: {fault}" if isinstance(fault, Exception) else None
            self._give((replace(span, ended=self._now(), fault=said),))

    def _below(self, parent: Stand | None, name: str, kind: SpanKind, about: Attributes) -> "_Open":
        """What begins a trace is asked for by the sampler; what is below something follows that."""
        if parent is None:
            trace = secrets.token_bytes(ids.TRACE_BYTES)
            at = Stand(trace, new_span(), self._wanted(trace))
        else:
            at = Stand(parent.trace, new_span(), parent.sampled, state=parent.state)
        return _Open(self, Span(_sort(name, kind), at, parent, self._now(), 0, about))


class _Open:
    """A span that is under way."""

    __slots__ = ("_span", "_token", "_tracing")

    def __init__(self, tracing: Tracing, span: Span) -> None:
        self._tracing = tracing
        self._span = span
        self._token: Token[Stand | None] | None = None

    def note(self, attributes: Attributes, /) -> None:
        """More about it."""
        self._span = replace(self._span, about={**self._span.about, **attributes})

    def __enter__(self) -> Self:
        self._token = stand.set(self._span.at)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        stand.reset(self._token)
        self._tracing.end(self._span, error)


def new_span() -> bytes:
    """An identifier that nobody can guess."""
    return secrets.token_bytes(ids.SPAN_BYTES)
