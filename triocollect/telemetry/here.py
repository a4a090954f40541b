"""What is said where something happens: a span, a count. It costs one look where nobody records.

`record` is heard by the task that calls it and by all that it starts, so two runs of one process do not mix.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, Protocol

from attrs import frozen

from triocollect.telemetry.logs import JsonLog
from triocollect.telemetry.made import Attributes, SpanKind, Stand, stand_of


class Serving(Protocol):
    """The span of a request that a server carries out."""

    def note(self, attributes: Attributes, /) -> None:
        """More about it."""


class Spans(Protocol):
    """Where spans go."""

    def begin_run(self, run: str) -> None:
        """What follows in this task belongs to this run."""

    def span(self, name: str, kind: SpanKind, attributes: Attributes) -> AbstractContextManager[object]:
        """The body is a span, a child of the one around it; an exception ends it as an error."""
        ...

    def served(
        self, name: str, headers: Mapping[str, str], attributes: Attributes
    ) -> AbstractContextManager[Serving]:
        """The body is what a server does for a request with these headers."""
        ...


class Counts(Protocol):
    """Where metrics go; their names are those of `metrics.INSTRUMENTS`."""

    def add(self, name: str, by: float, attributes: Mapping[str, str] = ..., /) -> None:
        """More of something."""

    def watch(self, name: str, value: Callable[[], float], attributes: Mapping[str, str] = ..., /) -> None:
        """From now on this is what something stands at. It is asked from any thread."""


@frozen
class Recording:
    """Who records, and what of it."""

    spans: Spans | None = None
    counts: Counts | None = None
    log: JsonLog | None = None


class _Unserved:
    def note(self, attributes: Attributes, /) -> None:
        """Nobody listens."""


_NOBODY: Final = Recording()
_recording: Final = ContextVar("recording", default=_NOBODY)
stand: Final = ContextVar[Stand | None]("stand", default=None)  # the span around what this task does
_NO_SPAN: Final = nullcontext()
_NO_REQUEST: Final = nullcontext(_Unserved())
_NO_HEADERS: Final[Mapping[str, str]] = {}


@contextmanager
def record(recording: Recording) -> Iterator[None]:
    """The body, and every task that it starts, is recorded."""
    token, outer = _recording.set(recording), stand.set(None)
    try:
        yield
    finally:
        stand.reset(outer)
        _recording.reset(token)


def recording() -> Recording:
    """Who records here."""
    return _recording.get()


def is_recorded() -> bool:
    """Whether anybody does."""
    return _recording.get() is not _NOBODY


def begin_run(run: str) -> None:
    """The run is known now; `run` is the output's, the same in every allocation."""
    if (spans := _recording.get().spans) is not None:
        spans.begin_run(run)


def span(
    name: str, kind: SpanKind = "internal", /, **attributes: str | float | bool
) -> AbstractContextManager[object]:
    """The body is a span of this name."""
    spans = _recording.get().spans
    return _NO_SPAN if spans is None else spans.span(name, kind, attributes)


def served(name: str, headers: Mapping[str, str], attributes: Attributes) -> AbstractContextManager[Serving]:
    """The body is what a server does for a request with these headers (names in lower case)."""
    spans = _recording.get().spans
    return _NO_REQUEST if spans is None else spans.served(name, headers, attributes)


def carried() -> Mapping[str, str]:
    """The headers that tell another server of the span around this, be it ours or our caller's."""
    at = stand.get()
    return _NO_HEADERS if at is None else at.headers


@contextmanager
def on_behalf(headers: Mapping[str, str]) -> Iterator[None]:
    """The body is work of who sent these headers, of which nobody tells here."""
    token = stand.set(stand_of(headers))
    try:
        yield
    finally:
        stand.reset(token)


def count(name: str, by: float = 1, **attributes: str) -> None:
    """So much more of something."""
    if (counts := _recording.get().counts) is not None:
        counts.add(name, by, attributes)
