"""What the events of a run count for. Pure."""

from collections.abc import Callable
from typing import Final

import msgspec

from triocollect.events import (
    CheckpointEnded,
    Event,
    Restored,
    RetiredRows,
    RunStarted,
)
from triocollect.telemetry.here import Counts
from triocollect.telemetry.rows import ENDS, Rows

HEARD: Final = (RunStarted, Restored, RetiredRows, CheckpointEnded)
_CALLS: Final = ("cut", "not_cut", "held")  # as model servers call them in their reports; together all
_FROM_NONE: Final = ("rows.continued", "rows.restarted", "rows.retired", "checkpoint.blockers")


class RunCounts:
    """Listens to a run. Its rows are counted by `rows`, and looked up when somebody asks."""

    def __init__(self, counts: Counts, rows: Rows) -> None:
        self._counts: Final = counts
        self._rows: Final = rows
        self._to_run = 0

    def listen(self, event: Event) -> None:
        """Take an event in, one of HEARD."""
        match event:
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

    def _started(self, to_run: int) -> None:
        self._to_run = to_run
        for name in _FROM_NONE:
            self._counts.add(name, 0)
        watch, rows = self._counts.watch, self._rows
        watch("rows.sent", lambda: rows.sent)
        watch("rows.retried", lambda: rows.retried)
        watch("rows.in_flight", lambda: rows.in_flight)
        watch("rows.queued", self._queued)
        for outcome in ENDS:
            watch("rows.ended", self._so_many(outcome), {"outcome": outcome})

    def _queued(self) -> int:
        return max(0, self._to_run - sum(self._rows.ended.values()) - self._rows.in_flight)

    def _so_many(self, outcome: str) -> Callable[[], int]:
        return lambda: self._rows.ended[outcome]

    def _checkpoint(self, event: CheckpointEnded) -> None:
        outcome, add = event.outcome, self._counts.add
        add("checkpoints", 1, {"outcome": "published" if outcome.published else "not_published"})
        for phase, seconds in outcome.phases_s.items():
            add("checkpoint.phase", seconds, {"phase": phase})
        if outcome.published:
            add("checkpoint.size", outcome.bytes)
            add("checkpoint.rows", outcome.continued, {"fate": "continued"})
            add("checkpoint.rows", outcome.restarted, {"fate": "restarted"})
        if outcome.blocker_count is not msgspec.UNSET:
            add("checkpoint.blockers", outcome.blocker_count)
        for fate in _CALLS:
            if fate in event.counts:
                add("checkpoint.calls", event.counts[fate], {"fate": fate})
