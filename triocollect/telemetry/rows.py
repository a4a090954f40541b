"""The spans of rows and their attempts, from the events of a run.

They are made when they have ended, from when they began and names alone (`ids`): nothing is held beside what
is in flight, and the SDK's tracer, which costs four times as much, is not asked.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from attrs import define
from opentelemetry import context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from triocollect.events import (
    Event,
    Restored,
    RowFailed,
    RowLeft,
    RowRetried,
    RowSent,
    RowSucceeded,
    RunStarted,
)
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.telemetry import ids
from triocollect.telemetry.here import Attributes
from triocollect.version import VERSION

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_DROPPED: Final = TraceFlags(TraceFlags.DEFAULT)
_OK: Final = Status()
_SCOPE: Final = InstrumentationScope("triocollect", VERSION)
_ANYWHERE: Final = context.Context()


@define
class _Row:
    """A row of this run that has not had its last word. Times in nanoseconds since 1970."""

    context: SpanContext
    began: int
    episode: EpisodeId  # of the attempt in flight, or of the last one
    attempt: SpanContext | None = None  # in flight
    attempt_began: int = 0


class _Ended(NamedTuple):
    """A span to be, but for its end, which is now."""

    name: str
    context: SpanContext
    parent: SpanContext | None
    began: int
    about: Attributes
    links: tuple[Link, ...]
    status: Status


class RowSpans:
    """Listens to a run. `linked` gives what says, in another trace, to which run a row belongs."""

    def __init__(
        self,
        processor: SpanProcessor,
        sampler: Sampler,
        resource: Resource,
        linked: Callable[[], tuple[Link, ...]] = tuple,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._processor: Final = processor
        self._sampler: Final = sampler
        self._resource: Final = resource
        self._linked: Final = linked
        self._now: Final = now
        self._run = ""
        self._rows: Final[dict[RowKey, _Row]] = {}
        self._continues: Final[dict[EpisodeId, EpisodeId]] = {}

    def listen(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case RowSent():
                self._sent(event.key, event.episode)
            case RowSucceeded():
                self._ended(event.key, "succeeded", _OK)
            case RowFailed():
                self._ended(event.key, "failed", Status(StatusCode.ERROR, event.failure_class))
            case RowRetried():
                if (row := self._rows.get(event.key)) is not None:
                    self._attempt_ended(row, "retried", Status(StatusCode.ERROR, event.reason))
            case RowLeft():
                self._ended(event.key, "left", Status(StatusCode.UNSET))
            case RunStarted():
                self._run = event.run
            case Restored():
                self._continues.update((after, before) for before, after in event.continued)
            case _:
                pass

    def close(self) -> None:
        """Whatever is in flight was cut."""
        for key in tuple(self._rows):
            self._ended(key, "cut", _OK)

    def headers(self, key: RowKey) -> Sequence[tuple[bytes, bytes]]:
        """What a `/run` says beside its row: the span of its attempt."""
        if (row := self._rows.get(key)) is None or (now := row.attempt) is None:
            return ()
        said = ids.traceparent(now.trace_id, now.span_id, sampled=now.trace_flags.sampled)
        return ((b"traceparent", said.encode()),)

    def _sent(self, key: RowKey, episode: EpisodeId) -> None:
        now = self._now()
        if (row := self._rows.get(key)) is None:
            trace_id = ids.rollout_trace(self._run, episode.rollout_id)
            flags = _SAMPLED if self._wanted(trace_id) else _DROPPED
            span = SpanContext(trace_id, ids.row_span(self._run, episode), False, flags)  # noqa: FBT003  # is_remote
            row = self._rows[key] = _Row(span, now, episode)
        row.episode, row.attempt_began = episode, now
        row.attempt = self._context_of(row, episode)

    def _wanted(self, trace_id: int) -> bool:
        return self._sampler.should_sample(_ANYWHERE, trace_id, "row").decision is Decision.RECORD_AND_SAMPLE

    def _context_of(self, row: _Row, episode: EpisodeId) -> SpanContext:
        span_id = ids.attempt_span(self._run, episode)
        return SpanContext(row.context.trace_id, span_id, False, row.context.trace_flags)  # noqa: FBT003  # is_remote

    def _ended(self, key: RowKey, outcome: str, status: Status) -> None:
        """A row that was never sent has no span."""
        if (row := self._rows.pop(key, None)) is None:
            return
        self._attempt_ended(row, outcome, status)
        if row.context.trace_flags.sampled:
            about = {"triocollect.rollout_id": row.episode.rollout_id, "triocollect.outcome": outcome}
            self._give(_Ended("row", row.context, None, row.began, about, self._linked(), status))

    def _attempt_ended(self, row: _Row, outcome: str, status: Status) -> None:
        span, row.attempt = row.attempt, None
        if span is None or not span.trace_flags.sampled:
            return
        about: Attributes = {"triocollect.attempt": row.episode.attempt, "triocollect.outcome": outcome}
        before = self._continues.pop(row.episode, None)
        links = () if before is None else (Link(self._context_of(row, before)),)
        self._give(_Ended("attempt", span, row.context, row.attempt_began, about, links, status))

    def _give(self, ended: _Ended) -> None:
        self._processor.on_end(
            ReadableSpan(
                name=ended.name,
                context=ended.context,
                parent=ended.parent,
                resource=self._resource,
                attributes=ended.about,
                links=ended.links,
                kind=SpanKind.INTERNAL if ended.parent is None else SpanKind.CLIENT,
                status=ended.status,
                start_time=ended.began,
                end_time=self._now(),
                instrumentation_scope=_SCOPE,
            )
        )
