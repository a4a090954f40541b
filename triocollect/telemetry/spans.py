"""Spans where something happens, by the SDK's tracer; `rows` has those of rows, which are many."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, SpanContext, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from triocollect.telemetry import here, ids
from triocollect.telemetry.here import Attributes
from triocollect.version import VERSION

_KINDS: Final[Mapping[here.SpanKind, SpanKind]] = {
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "server": SpanKind.SERVER,
}


class RunIds(RandomIdGenerator):
    """Random ids, but for the trace of a run, which is the run's in every allocation."""

    def __init__(self) -> None:
        self.next_trace: int | None = None

    def generate_trace_id(self) -> int:
        """Called by the SDK for a span without a parent."""
        trace_id, self.next_trace = self.next_trace, None
        return super().generate_trace_id() if trace_id is None else trace_id


class Tracing:
    """See `here.Spans`. `provider` was made with `ids`."""

    def __init__(self, provider: TracerProvider, ids: RunIds) -> None:
        self._tracer: Final = provider.get_tracer("triocollect", VERSION)
        self._ids: Final = ids
        self._propagator: Final = TraceContextTextMapPropagator()
        self._run: trace.Span | None = None

    def begin_run(self, run: str) -> None:
        """From here on spans of this task are below the run's."""
        self._ids.next_trace = ids.run_trace(run)
        self._run = self._tracer.start_span(
            "run", context=context.Context(), attributes={"triocollect.run": run}
        )
        context.attach(trace.set_span_in_context(self._run))

    @property
    def run_context(self) -> SpanContext | None:
        """The run's span, once it has begun."""
        return None if self._run is None else self._run.get_span_context()

    def end_run(self) -> None:
        """It is over."""
        if self._run is not None:
            self._run.end()

    def linked(self) -> tuple[Link, ...]:
        """What belongs to the run and is in another trace says so by this."""
        return () if self.run_context is None else (Link(self.run_context),)

    @contextmanager
    def span(self, name: str, kind: here.SpanKind, attributes: Attributes) -> Iterator[None]:
        """A child of the span around it. What raises ends it as an error, with its words."""
        with self._tracer.start_as_current_span(
            name, kind=_KINDS[kind], attributes=_named(attributes), record_exception=False
        ):
            yield

    @contextmanager
    def served(self, name: str, headers: Mapping[str, str], attributes: Attributes) -> Iterator[here.Serving]:
        """A child of the caller's span, where the headers name one."""
        with self._tracer.start_as_current_span(
            name,
            context=self._propagator.extract(headers, context=context.Context()),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
        ) as span:
            yield _Request(span)

    def carried(self) -> Mapping[str, str]:
        """The current span's `traceparent`, and its `tracestate`, if any."""
        headers: dict[str, str] = {}
        self._propagator.inject(headers)
        return headers


class _Request:
    def __init__(self, span: trace.Span) -> None:
        self.note: Final = span.set_attributes


def _named(attributes: Attributes) -> Attributes:
    return {f"triocollect.{name}": value for name, value in attributes.items()}
