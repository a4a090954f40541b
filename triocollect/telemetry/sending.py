"""Spans on their way to a store: as bytes of OTLP, or as spans of the SDK."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from triocollect.telemetry.made import Attributes, Span, Stand
from triocollect.telemetry.otlp import encoded, request
from triocollect.telemetry.spans import Give
from triocollect.version import VERSION

SCOPE: Final = "triocollect"
_SCOPE: Final = InstrumentationScope(SCOPE, VERSION)


class Posted(Protocol):
    """What came of a request."""

    @property
    def success(self) -> bool:
        """Whether the store took it."""
        ...


Post: TypeAlias = Callable[[bytes], Posted]  # blocks, and tries again by itself


class Batches:
    """Sends encoded spans in a thread of its own: every so often, and when there are many.

    What a store does not take is gone, and above `most` that wait none are kept: rows do not wait for it.
    """

    def __init__(self, post: Post, resource: Attributes, *, every_s: float, at_once: int, most: int) -> None:
        self._post: Final = post
        self._resource: Final = resource
        self._every_s: Final = every_s
        self._at_once: Final = at_once
        self._most: Final = most
        self._waiting: Final = deque[bytes]()  # one thread puts in at one end, one takes from the other
        self._over = False
        self._wake: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def give(self, spans: tuple[Span, ...]) -> None:
        """Some spans that have ended."""
        waiting = self._waiting
        if len(waiting) < self._most:
            waiting.extend(map(encoded, spans))
            if len(waiting) >= self._at_once and not self._wake.is_set():
                self._wake.set()

    def close(self) -> None:
        """Send what is left; blocks until that is done."""
        self._over = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over:
            self._wake.wait(self._every_s)
            self._wake.clear()
            self._send()
        self._send()

    def _send(self) -> None:
        while found := min(len(self._waiting), self._at_once):
            some = [self._waiting.popleft() for _ in range(found)]
            self._post(request(self._resource, (SCOPE, VERSION), some))


def given_to(processor: SpanProcessor, resource: Resource) -> Give:
    """Spans go to a processor of the SDK."""

    def give(spans: tuple[Span, ...]) -> None:
        for span in spans:
            processor.on_end(readable(span, resource))

    return give


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """The SDK's form of a span."""
    return ReadableSpan(
        name=span.name,
        context=_context(span.at),
        parent=None if span.parent is None else _context(span.parent),
        resource=resource,
        attributes=span.about,
        links=[Link(_context(to)) for to in span.links],
        kind=SpanKind[span.kind.upper()],
        status=Status() if span.fault is None else Status(StatusCode.ERROR, span.fault),
        start_time=span.began,
        end_time=span.ended,
        instrumentation_scope=_SCOPE,
    )


def _context(at: Stand) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if at.sampled else TraceFlags.DEFAULT)
    trace, span = int.from_bytes(at.trace), int.from_bytes(at.span)
    return SpanContext(trace, span, is_remote=at.remote, trace_flags=flags)
