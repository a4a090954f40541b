"""A row of a run, and its spans, as values or in bytes.

They are made of names (`ids`) and of when things began and ended, and not before somebody reads them: many at
once, in a thread of its own: between one row and the next the same steps would meet cold caches.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from triocollect.protocol.ids import EpisodeId
from triocollect.telemetry import ids, otlp
from triocollect.telemetry.made import Sort, Span, Stand

_ROLLOUT_ID: Final = "triocollect.rollout_id"
_MOST_SORTS: Final = 256  # nearly all attempts are the first one of their row, and succeed


@lru_cache(_MOST_SORTS)
def _rows(outcome: str) -> Sort:
    return Sort("row", "internal", {"triocollect.outcome": outcome})


@lru_cache(_MOST_SORTS)
def _attempts(attempt: int, outcome: str) -> Sort:
    return Sort("attempt", "client", {"triocollect.attempt": attempt, "triocollect.outcome": outcome})


class Row(msgspec.Struct, gc=False):  # in no cycle; thousands wait, and the collector would look at each
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

    def encoded(self) -> list[bytes]:
        """The bytes of its spans, as `otlp.encoded` has them; soon made where it went as most rows do."""
        if self.retried is not None or self.continues is not None or self.fault is not None:
            return list(map(otlp.encoded, self))
        trace, name = self.trace, self.episode.rollout_id.encode(errors="replace")
        row, attempt = ids.row_span(trace, self.first), ids.attempt_span(trace, self.episode.attempt)
        of_attempt = otlp.below(_attempts(self.episode.attempt, self.outcome))
        of_row = otlp.saying(_rows(self.outcome), _ROLLOUT_ID, len(name), self.links)
        return [
            of_attempt((trace, attempt), self.attempt_began, self.ended, row),
            of_row((trace, row), self.began, self.ended, name),
        ]

    def __iter__(self) -> Iterator[Span]:
        """Of the last attempt and of the row."""
        above = self.at
        yield self.attempt_span(above, self.ended, self.outcome, self.fault)
        about = {_ROLLOUT_ID: self.episode.rollout_id}
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
