"""The events of a run as lines of its log. Pure but for the log."""

from typing import Final

from triocollect.events import (
    CheckpointEnded,
    CheckpointStarted,
    Event,
    Note,
    Restored,
    RetiredRows,
    RowFailed,
    RowLeft,
    RowRetried,
    RowSent,
    RowSucceeded,
    RunStarted,
)
from triocollect.protocol.ids import EpisodeId
from triocollect.telemetry.logs import JsonLog


class Story:
    """Listens to a run."""

    def __init__(self, log: JsonLog) -> None:
        self._log: Final = log

    def listen(self, event: Event) -> None:
        """Write what an event says."""
        match event:
            case RowSent() | RowRetried() | RowSucceeded() | RowFailed() | RowLeft():
                self._row(event)
            case CheckpointStarted():
                said = f"asked for by: {event.why}"
                self._log.write("checkpoint_started", said, operation=event.operation)
            case CheckpointEnded():
                self._checkpoint(event)
            case Note():
                self._log.write("note", event.text, event.level)
            case RunStarted():
                todo = event.expected - event.done - event.given_up
                self._log.write("run_started", f"run {event.run}: {todo} of {event.expected} rows to send")
            case Restored():
                self._restored(event)
            case RetiredRows():
                said = f"{event.attempts} attempts are stopped everywhere"
                self._log.write("retired", said, operation=event.operation)

    def _row(self, event: RowSent | RowRetried | RowSucceeded | RowFailed | RowLeft) -> None:
        write = self._log.write
        match event:
            case RowSent():
                write("row_sent", "sent", episode=event.episode)
            case RowRetried():
                write("row_retried", f"no reply: {event.reason}", "warning", event.episode)
            case RowSucceeded():
                write("row_succeeded", f"succeeded after {event.seconds:.3f} s", episode=event.episode)
            case RowFailed():
                said = f"failed after {event.seconds:.3f} s: {event.failure_class}: {event.message}"
                write("row_failed", said, "warning", event.episode)
            case RowLeft():
                name, attempt = event.rollout_id, event.attempt
                episode = name if name is None or attempt is None else EpisodeId(name, attempt)
                write("row_left", event.reason, "warning", episode)

    def _restored(self, event: Restored) -> None:
        fault = "" if event.fault is None else f": {event.fault}"
        said = f"{len(event.continued)} rows continued, {event.anew} begin anew{fault}"
        level = "info" if event.fault is None else "warning"
        self._log.write("restored", said, level, operation=event.operation)

    def _checkpoint(self, event: CheckpointEnded) -> None:
        outcome = event.outcome
        said = f"not published: {outcome.reason}"
        if outcome.published:
            said = f"published {outcome.checkpoint_id}: {outcome.continued} rows, {outcome.bytes} bytes"
        level = "info" if outcome.published else "warning"
        self._log.write("checkpoint_ended", said, level, operation=outcome.operation)
