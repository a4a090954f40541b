"""The spans of rows and their attempts, from the events of a run.

They are made when they have ended, from when they began and names alone (`ids`): nothing is held beside what
is in flight.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from attrs import define

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
from triocollect.telemetry.made import Attributes, Span, Stand
from triocollect.telemetry.spans import Give, Now, Wanted


@define
class _Row:
    """A row of this run that has not had its last word. Times in nanoseconds since 1970."""

    at: Stand
    began: int
    episode: EpisodeId  # of the attempt in flight, or of the last one
    attempt: Stand | None = None  # its span, until that is made
    attempt_began: int = 0
    retried: tuple[str, int] | None = None  # no reply came, why and when: it may be sent again


class RowSpans:
    """Listens to a run. `run` gives the span of that, to which rows, each in its own trace, are linked."""

    def __init__(
        self,
        give: Give,
        wanted: Wanted,
        run: Callable[[], tuple[Stand, ...]] = tuple,
        now: Now = time.time_ns,
    ) -> None:
        self._give: Final = give
        self._wanted: Final = wanted
        self._links: Final = run
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
                self._ended(event.key, "succeeded")
            case RowFailed():
                self._ended(event.key, "failed", event.failure_class)
            case RowRetried():
                if (row := self._rows.get(event.key)) is not None:
                    row.retried = event.reason, self._now()
            case RowLeft():
                self._ended(event.key, "left")
            case RunStarted():
                self._run = event.run
            case Restored():
                self._continues.update((after, before) for before, after in event.continued)
            case _:
                pass

    def close(self) -> None:
        """Whatever is in flight was cut."""
        for key in tuple(self._rows):
            self._ended(key, "cut")

    def headers(self, key: RowKey) -> Sequence[tuple[bytes, bytes]]:
        """What a `/run` says beside its row: the span of its attempt."""
        if (row := self._rows.get(key)) is None or row.attempt is None:
            return ()
        return ((b"traceparent", row.attempt.traceparent.encode()),)

    def _sent(self, key: RowKey, episode: EpisodeId) -> None:
        now = self._now()
        if (row := self._rows.get(key)) is None:
            trace = ids.rollout_trace(self._run, episode.rollout_id)
            at = Stand(trace, ids.row_span(trace, episode.attempt), self._wanted(trace))
            row = self._rows[key] = _Row(at, now, episode)
        if row.retried is not None and episode == row.episode:
            row.retried = None  # nothing ran of it: it is the same attempt still
            return
        if spans := self._attempt_ended(row, "retried", None):
            self._give(spans)
        row.episode, row.attempt_began = episode, now
        row.attempt = self._stand_of(row, episode)

    def _stand_of(self, row: _Row, episode: EpisodeId) -> Stand:
        return Stand(row.at.trace, ids.attempt_span(row.at.trace, episode.attempt), row.at.sampled)

    def _ended(self, key: RowKey, outcome: str, fault: str | None = None) -> None:
        """A row that was never sent has no span."""
        if (row := self._rows.pop(key, None)) is None:
            return
        attempt = self._attempt_ended(row, outcome, fault)
        if row.at.sampled:
            about = {"triocollect.rollout_id": row.episode.rollout_id, "triocollect.outcome": outcome}
            now, links = self._now(), self._links()
            self._give((*attempt, Span("row", row.at, None, "internal", row.began, now, about, links, fault)))

    def _attempt_ended(self, row: _Row, outcome: str, fault: str | None) -> tuple[Span, ...]:
        """Its span; none where none is in flight, or nothing is kept."""
        at, row.attempt = row.attempt, None
        now = self._now()
        if row.retried is not None:
            (fault, now), row.retried, outcome = row.retried, None, "retried"
        if at is None or not at.sampled:
            return ()
        about: Attributes = {"triocollect.attempt": row.episode.attempt, "triocollect.outcome": outcome}
        before = self._continues.pop(row.episode, None)
        links = () if before is None else (self._stand_of(row, before),)
        return (Span("attempt", at, row.at, "client", row.attempt_began, now, about, links, fault),)
