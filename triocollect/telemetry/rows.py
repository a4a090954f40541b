"""The rows of a run, from its events: which are in flight, how the others ended, the spans of each."""

import time
from collections.abc import Callable, Sequence
from typing import Final

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
from triocollect.telemetry.made import TRACEPARENT, Stand, traceparent
from triocollect.telemetry.row import Row
from triocollect.telemetry.spans import Give, Now, Wanted

HEARD: Final = (RowSent, RowSucceeded, RowFailed, RowRetried, RowLeft, RunStarted, Restored)
ENDS: Final = ("succeeded", "failed", "left")
_TRACEPARENT: Final = TRACEPARENT.encode()


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
        self._rows: Final[dict[RowKey, Row]] = {}
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
            self._rows[key] = Row(trace, wanted, episode.attempt, now, episode, now, continues)
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
