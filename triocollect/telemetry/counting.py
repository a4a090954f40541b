"""What the events of a run count for. Pure."""

from collections.abc import Callable
from typing import Final

import msgspec

from triocollect.events import (
    CheckpointEnded,
    Event,
    Restored,
    RetiredRows,
    RowFailed,
    RowLeft,
    RowRetried,
    RowSent,
    RowSucceeded,
    RunStarted,
)
from triocollect.protocol.ids import RowKey
from triocollect.telemetry.here import Counts

_CALLS: Final = ("cut", "not_cut", "held", "undelivered")  # as model servers call them in their reports
_FROM_NONE: Final = ("rows.continued", "rows.restarted", "rows.retired", "checkpoint.blockers")
_ENDS: Final = ("succeeded", "failed", "left")


class RunCounts:
    """Listens to a run. What each row counts for is only noted, and looked up when somebody asks."""

    def __init__(self, counts: Counts) -> None:
        self._counts: Final = counts
        self._flying: Final[set[RowKey]] = set()
        self._to_run = self._sent = self._retried = 0
        self._ended: Final = dict.fromkeys(_ENDS, 0)

    def listen(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case RowSent():
                self._flying.add(event.key)
                self._sent += 1
            case RowSucceeded():
                self._end(event.key, "succeeded")
            case RowFailed():
                self._end(event.key, "failed")
            case RowLeft():
                self._end(event.key, "left")
            case RowRetried():
                self._flying.discard(event.key)
                self._retried += 1
            case RunStarted():
                self._started(event.expected - event.done - event.given_up)
            case Restored():
                self._counts.add("rows.continued", len(event.continued))
                self._counts.add("rows.restarted", event.anew)
            case RetiredRows():
                self._counts.add("rows.retired", event.attempts)
            case CheckpointEnded():
                self._checkpoint(event)
            case _:
                pass

    def _end(self, key: RowKey, outcome: str) -> None:
        self._flying.discard(key)
        self._ended[outcome] += 1

    def _started(self, to_run: int) -> None:
        self._to_run = to_run
        for name in _FROM_NONE:
            self._counts.add(name, 0)
        watch = self._counts.watch
        watch("rows.sent", lambda: self._sent)
        watch("rows.retried", lambda: self._retried)
        watch("rows.in_flight", lambda: len(self._flying))
        watch("rows.queued", self._queued)
        for outcome in _ENDS:
            watch("rows.ended", self._so_many(outcome), {"outcome": outcome})

    def _queued(self) -> int:
        return max(0, self._to_run - sum(self._ended.values()) - len(self._flying))

    def _so_many(self, outcome: str) -> Callable[[], int]:
        return lambda: self._ended[outcome]

    def _checkpoint(self, event: CheckpointEnded) -> None:
        outcome, add = event.outcome, self._counts.add
        add("checkpoints", 1, {"outcome": "published" if outcome.published else "not_published"})
        for phase, seconds in outcome.phases_s.items():
            add("checkpoint.phase", seconds, {"phase": phase})
        if outcome.published:
            add("checkpoint.size", outcome.bytes)
            add("checkpoint.rows", outcome.continued, {"fate": "continued"})
            add("checkpoint.rows", outcome.restarted, {"fate": "restarted"})
        if outcome.blockers is not msgspec.UNSET:
            add("checkpoint.blockers", len(outcome.blockers))
        for fate in _CALLS:
            if fate in event.counts:
                add("checkpoint.calls", event.counts[fate], {"fate": fate})
