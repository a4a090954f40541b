"""What the events of a run count for. Pure."""

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
_NO_ATTRIBUTES: Final[dict[str, str]] = {}


class RunCounts:
    """Listens to a run."""

    def __init__(self, counts: Counts) -> None:
        self._counts: Final = counts
        self._flying: Final[set[RowKey]] = set()
        self._left = 0

    def listen(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case RowSent():
                self._flying.add(event.key)
                self._counts.add("rows.sent", 1, _NO_ATTRIBUTES)
            case RowSucceeded():
                self._ended(event.key, "succeeded")
            case RowFailed():
                self._ended(event.key, "failed")
            case RowLeft():
                self._ended(event.key, "left")
            case RowRetried():
                self._flying.discard(event.key)
                self._counts.add("rows.retried", 1, _NO_ATTRIBUTES)
            case RunStarted():
                self._left = event.expected - event.done - event.given_up
                self._counts.watch("rows.in_flight", lambda: len(self._flying))
                self._counts.watch("rows.queued", lambda: max(0, self._left - len(self._flying)))
            case Restored():
                self._counts.add("rows.continued", len(event.continued), _NO_ATTRIBUTES)
                self._counts.add("rows.restarted", event.anew, _NO_ATTRIBUTES)
            case RetiredRows():
                self._counts.add("rows.retired", event.attempts, _NO_ATTRIBUTES)
            case CheckpointEnded():
                self._checkpoint(event)
            case _:
                pass

    def _ended(self, key: RowKey, outcome: str) -> None:
        self._flying.discard(key)
        self._left -= 1
        self._counts.add("rows.ended", 1, {"outcome": outcome})

    def _checkpoint(self, event: CheckpointEnded) -> None:
        outcome, add = event.outcome, self._counts.add
        add("checkpoints", 1, {"outcome": "published" if outcome.published else "not_published"})
        for phase, seconds in outcome.phases_s.items():
            add("checkpoint.phase", seconds, {"phase": phase})
        if outcome.published:
            add("checkpoint.size", outcome.bytes, _NO_ATTRIBUTES)
            add("checkpoint.rows", outcome.continued, {"fate": "continued"})
            add("checkpoint.rows", outcome.restarted, {"fate": "restarted"})
        if outcome.blockers is not msgspec.UNSET:
            add("checkpoint.blockers", len(outcome.blockers), _NO_ATTRIBUTES)
        for fate in _CALLS:
            if fate in event.counts:
                add("checkpoint.calls", event.counts[fate], {"fate": fate})
