"""The rows of a run, from its events: which are in flight, how the others ended, the spans of each.

Spans are made of names (`ids`) and of when things began and ended, and not before somebody reads them: many
at once, in a thread of its own: between one row and the next the same steps would meet cold caches.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

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
from triocollect.telemetry.made import TRACEPARENT, Sort, Span, Stand, traceparent
from triocollect.telemetry.spans import Give, Now, Wanted

HEARD: Final = (RowSent, RowSucceeded, RowFailed, RowRetried, RowLeft, RunStarted, Restored)
ENDS: Final = ("succeeded", "failed", "left")
_TRACEPARENT: Final = TRACEPARENT.encode()
_MOST_SORTS: Final = 256  # nearly all attempts are the first one of their row, and succeed


@lru_cache(_MOST_SORTS)
def _rows(outcome: str) -> Sort:
    return Sort("row", "internal", {"triocollect.outcome": outcome})


@lru_cache(_MOST_SORTS)
def _attempts(attempt: int, outcome: str) -> Sort:
    return Sort("attempt", "client", {"triocollect.attempt": attempt, "triocollect.outcome": outcome})


class _Row(msgspec.Struct, gc=False):  # in no cycle; thousands wait, and the collector would look at each
    """A row of this run; when it has had its last word, its spans. Times in nanoseconds since 1970."""

    trace: bytes
    sampled: bool
    first: int  # the attempt by which the row's own span is known
    began: int
    episode: EpisodeId  # of the attempt in flight, or of the last one
    attempt_began: int
    continues: EpisodeId | None
    retried: tuple[str, int] | None = None  # no reply came, why and when: it may be sent again
    ended: int = 0
    outcome: str = ""
    fault: str | None = None
    links: tuple[Stand, ...] = ()

    def __iter__(self) -> Iterator[Span]:
        """Of the last attempt and of the row."""
        above = self.at
        yield self.attempt_span(above, self.ended, self.outcome, self.fault)
        about = {"triocollect.rollout_id": self.episode.rollout_id}
        yield Span(_rows(self.outcome), above, None, self.began, self.ended, about, self.links, self.fault)

    def attempt_span(self, above: Stand, ended: int, outcome: str, fault: str | None) -> Span:
        """Of the last attempt: it ended when it was known that no reply comes, if it was."""
        if self.retried is not None:
            fault, ended = self.retried
            outcome = "retried"
        sort, at = _attempts(self.episode.attempt, outcome), self.attempt(self.episode)
        links = () if self.continues is None else (self.attempt(self.continues),)
        return Span(sort, at, above, self.attempt_began, ended, {}, links, fault)

    def attempt(self, episode: EpisodeId) -> Stand:
        return Stand(self.trace, ids.attempt_span(self.trace, episode.attempt), self.sampled)

    @property
    def at(self) -> Stand:
        return Stand(self.trace, ids.row_span(self.trace, self.first), self.sampled)


class Rows:
    """Listens to a run. `run` gives the span of that, to which rows, each in its own trace, are linked.

    What they count for is only noted, for others to look up: `sent`, `retried`, and `ended` by outcome.
    """

    def __init__(
        self,
        give: Give,
        wanted: Wanted,
        run: Callable[[], tuple[Stand, ...]] = tuple,
        now: Now = time.time_ns,
    ) -> None:
        self._give: Final = give
        self._wanted: Final = wanted
        self._run_span: Final = run
        self._links: tuple[Stand, ...] = ()
        self._now: Final = now
        self._run = ""
        self.sent = self.retried = 0
        self.ended: Final = dict.fromkeys(ENDS, 0)
        self._rows: Final[dict[RowKey, _Row]] = {}
        self._continues: Final[dict[EpisodeId, EpisodeId]] = {}

    @property
    def in_flight(self) -> int:
        """Rows that were sent and not answered yet. Asked from any thread."""
        return sum(row.retried is None for row in tuple(self._rows.values()))

    def listen(self, event: Event) -> None:
        """Take an event in, one of HEARD."""
        match event:
            case RowSent():
                self._sent(event.key, event.episode)
            case RowSucceeded():
                self._ended(event.key, "succeeded")
            case RowFailed():
                self._ended(event.key, "failed", event.failure_class)
            case RowRetried():
                self.retried += 1
                if (row := self._rows.get(event.key)) is not None:
                    row.retried = event.reason, self._now()
            case RowLeft():
                self._ended(event.key, "left")
            case RunStarted():
                self._run, self._links = event.run, self._run_span()
            case Restored():
                self._continues.update((after, before) for before, after in event.continued)
            case _:
                pass

    def close(self) -> None:
        """Whatever is in flight was cut."""
        for key in tuple(self._rows):
            self._tell(key, "cut")

    def headers(self, key: RowKey) -> Sequence[tuple[bytes, bytes]]:
        """What a `/run` says beside its row: the span of its attempt."""
        if (row := self._rows.get(key)) is None:
            return ()
        span = ids.attempt_span(row.trace, row.episode.attempt)
        return ((_TRACEPARENT, traceparent(row.trace, span, sampled=row.sampled).encode()),)

    def _sent(self, key: RowKey, episode: EpisodeId) -> None:
        self.sent += 1
        now = self._now()
        continues = self._continues.pop(episode, None) if self._continues else None
        if (row := self._rows.get(key)) is None:
            trace = ids.rollout_trace(self._run, episode.rollout_id)
            wanted = self._wanted(trace)
            self._rows[key] = _Row(trace, wanted, episode.attempt, now, episode, now, continues)
        elif row.retried is not None and episode == row.episode:
            row.retried = None  # nothing ran of it: it is the same attempt still
        else:
            if row.sampled:
                self._give((row.attempt_span(row.at, now, "retried", None),))
            row.episode, row.attempt_began, row.continues, row.retried = episode, now, continues, None

    def _ended(self, key: RowKey, outcome: str, fault: str | None = None) -> None:
        self.ended[outcome] += 1
        self._tell(key, outcome, fault)

    def _tell(self, key: RowKey, outcome: str, fault: str | None = None) -> None:
        """A row that was never sent has no span."""
        row = self._rows.pop(key, None)
        if row is not None and row.sampled:
            row.ended, row.outcome, row.fault, row.links = self._now(), outcome, fault, self._links
            self._give(row)
