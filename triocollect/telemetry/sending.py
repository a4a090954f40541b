"""Spans on their way to a store: as bytes of OTLP, or as spans of the SDK."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
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
    """Makes, encodes and sends spans in a thread of its own: every so often, and when many were given.

    What a store does not take is gone, and where `most` wait no more are kept: rows do not wait for it.
    `at_once`: so many spans make a request.
    """

    def __init__(self, post: Post, resource: Attributes, *, every_s: float, at_once: int, most: int) -> None:
        self._post: Final = post
        self._resource: Final = resource
        self._every_s: Final = every_s
        self._at_once: Final = at_once
        self._most: Final = most
        self._waiting: Final = deque[Iterable[Span]]()  # one thread puts in, one takes out
        self._over = False
        self._wake: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def give(self, spans: Iterable[Span]) -> None:
        """Some spans that have ended."""
        if (waiting := len(self._waiting)) < self._most:
            self._waiting.append(spans)
            if waiting + 1 >= self._at_once and not self._wake.is_set():
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
        spans = map(encoded, self._given())
        while some := list(islice(spans, self._at_once)):
            self._post(request(self._resource, (SCOPE, VERSION), some))

    def _given(self) -> Iterator[Span]:
        """What waits now; what comes meanwhile is for the next time, or requests would be many and small."""
        for _ in range(len(self._waiting)):
            yield from self._waiting.popleft()


def given_to(processor: SpanProcessor, resource: Resource) -> Give:
    """Spans go to a processor of the SDK."""

    def give(spans: Iterable[Span]) -> None:
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
