"""Spans on their way to a store: as bytes of OTLP, or as spans of the SDK."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from triocollect.telemetry.made import ResourceAttributes, Span, Stand
from triocollect.telemetry.otlp import encoded, request
from triocollect.telemetry.row import Row
from triocollect.telemetry.spans import Give
from triocollect.version import VERSION

SCOPE: Final = "triocollect"
_SLOW: Final = "the store takes them more slowly than they come"
_SCOPE: Final = InstrumentationScope(SCOPE, VERSION)


class Posted(Protocol):
    """What came of a request."""

    @property
    def status_code(self) -> int | None:
        """The store's, if it answered."""
        ...


Post: TypeAlias = Callable[[bytes], Posted]  # blocks, and tries again by itself


class Pace(NamedTuple):
    """When spans are sent."""

    every_s: float
    at_once: int  # so many make a request, and do not wait any longer
    most: int  # rows, or other spans, that wait


class Batches:
    """Makes, encodes and sends spans in a thread of its own: every so often, and when many were given.

    What a store does not take is gone, and where too many wait no more are kept: rows do not wait for it.
    `complain` hears what fails in the thread, which goes on, and at the end how many were not kept.
    """

    def __init__(
        self, post: Post, resource: ResourceAttributes, complain: Callable[[str], None], pace: Pace
    ) -> None:
        self._post: Final = post
        self._resource: Final = resource
        self._complain: Final = complain
        self._pace: Final = pace
        self._waiting: Final = deque[Iterable[Span]]()  # one thread puts in, one takes out
        self._not_kept = 0
        self._over = False
        self._wake: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def give(self, spans: Iterable[Span]) -> None:
        """Some spans that have ended."""
        if (waiting := len(self._waiting)) >= self._pace.most:
            self._not_kept += 1
            return
        self._waiting.append(spans)
        if waiting + 1 >= self._pace.at_once and not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
        """Send what is left; blocks until that is done."""
        self._over = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over:
            self._wake.wait(self._pace.every_s)
            self._wake.clear()
            self._send()
        self._send()
        if self._not_kept:
            self._complain(f"spans of {self._not_kept} rows, or of other work, are lost: {_SLOW}")

    def _send(self) -> None:
        spans = self._encoded()
        while some := list(islice(spans, self._pace.at_once)):
            try:
                self._post(request(self._resource, (SCOPE, VERSION), some))
            except Exception as error:  # noqa: BLE001  # whatever it is, the next ones may come through
                self._complain(f"a request cannot be sent: {type(error).__name__}: {error}")

    def _encoded(self) -> Iterator[bytes]:
        """What waits now; what comes meanwhile is for the next time, or requests would be many and small."""
        for _ in range(len(self._waiting)):
            try:
                spans = self._waiting.popleft()
                some = spans.encoded() if isinstance(spans, Row) else list(map(encoded, spans))
            except Exception as error:  # noqa: BLE001  # as above
                self._complain(f"a span cannot be written down: {type(error).__name__}: {error}")
            else:
                yield from some


def given_to(processor: SpanProcessor, resource: Resource) -> Give:
    """Spans go to a processor of the SDK."""

    def give(spans: Iterable[Span]) -> None:
        for span in spans:
            processor.on_end(readable(span, resource))

    return give


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """The SDK's form of a span."""
    return ReadableSpan(
        name=span.sort.name,
        context=_context(span.at),
        parent=None if span.parent is None else _context(span.parent),
        resource=resource,
        attributes={**span.sort.about, **span.about},
        links=[Link(_context(to)) for to in span.links],
        kind=SpanKind[span.sort.kind.upper()],
        status=Status() if span.fault is None else Status(StatusCode.ERROR, span.fault),
        start_time=span.began,
        end_time=span.ended,
        instrumentation_scope=_SCOPE,
    )


def _context(at: Stand) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if at.sampled else TraceFlags.DEFAULT)
    trace, span = int.from_bytes(at.trace), int.from_bytes(at.span)
    return SpanContext(trace, span, is_remote=at.remote, trace_flags=flags)
