"""The state of a run as its events tell it. Pure: time is handed in; memory follows rows in flight."""

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
from triocollect.metrics import Interval, RewardMean, bounds
from triocollect.protocol.ids import RowKey
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.report.eta import Sample, eta

_CLUSTERS: Final = 1024  # tasks told apart in the running interval; more of them share places


class Tally:
    """Counts of this run only, but for `expected`, `done` and `given_up`, which cover all runs."""

    def __init__(self) -> None:
        self.expected = self.done = self.given_up = self.concurrency = 0
        self.succeeded = self.failed = self.without_line = self.retried = 0
        self.failures: dict[str, int] = {}  # by class
        self.flying: dict[RowKey, float] = {}  # row -> time it was sent
        self.waiting = set[RowKey]()  # to be sent again
        self.rewards = RewardMean(_CLUSTERS)
        self.durations = Sample()  # seconds
        self.checkpoint: CheckpointOutcome | None = None  # the last one that was published
        self.saved: dict[RowKey, float] = {}  # unfinished row of it -> seconds of work it had behind it then
        self._checkpoint_at = 0.0
        self._began: float | None = None

    def apply(self, event: Event, now: float) -> None:  # one case per event
        """Take one event in; `now` is seconds on any clock that never goes back."""
        match event:
            case RowSent():
                self.flying[event.key] = now
                self.retried += event.key in self.waiting
                self.waiting.discard(event.key)
            case RowSucceeded():
                self._succeeded(event)
            case RowFailed():
                self._ended(event.key)
                self.failed += 1
                self.durations.add(event.seconds)
                self.failures[event.failure_class] = self.failures.get(event.failure_class, 0) + 1
            case RowRetried():
                self.flying.pop(event.key, None)
                self.waiting.add(event.key)
            case RowLeft():
                # A row that was never started stays what it is: left.
                if self._ended(event.key):
                    self.without_line += 1
            case RunStarted():
                self.expected, self.done, self.given_up = event.expected, event.done, event.given_up
                self.concurrency, self._began = event.concurrency, now
            case CheckpointEnded():
                self._cut(event, now)
            case Note() | CheckpointStarted() | Restored() | RetiredRows():
                pass

    def _succeeded(self, event: RowSucceeded) -> None:
        self._ended(event.key)
        self.succeeded += 1
        self.durations.add(event.seconds)
        if event.reward is not None:
            self.rewards.add(event.key.task, event.reward)

    def _ended(self, key: RowKey) -> bool:
        """Whether it was in flight. A row without a reply has not ended: it is continued all the same."""
        self.saved.pop(key, None)
        self.waiting.discard(key)
        return self.flying.pop(key, None) is not None

    def _cut(self, event: CheckpointEnded, now: float) -> None:
        if event.outcome.published:
            self.checkpoint, self._checkpoint_at = event.outcome, now
            self.saved = {key: now - self.flying.get(key, now) for key in event.standing}

    @property
    def to_run(self) -> int:
        """Rows that this run has to do."""
        return self.expected - self.done - self.given_up

    @property
    def finished(self) -> int:
        """Rows of this run that have ended, well or not."""
        return self.succeeded + self.failed + self.without_line

    @property
    def queued(self) -> int:
        """Rows of this run that are neither finished nor in flight."""
        return max(0, self.to_run - self.finished - len(self.flying))

    @property
    def percent(self) -> float:
        """How much of this run is finished: a whole number, or 99.5 shortly before the end."""
        exact = 100.0 * self.finished / self.to_run if self.to_run else 100.0
        return 99.5 if 99.5 <= exact < 100 else float(int(exact))  # noqa: PLR2004  # Gym's steps

    def seconds(self, now: float) -> float:
        """Since rows began to be sent; 0 before."""
        return 0.0 if self._began is None else now - self._began

    def rows_per_minute(self, now: float) -> float:
        """Of this run."""
        seconds = self.seconds(now)
        return 60 * self.finished / seconds if seconds > 0 else 0.0

    def eta(self, now: float) -> float | None:
        """Seconds until the last row ends; None while that cannot be said: also when all wait to be sent."""
        if self.waiting and not self.flying and len(self.waiting) == self.queued:
            return None
        return eta(
            queued=self.queued,
            ages=[now - sent for sent in self.flying.values()],
            durations=self.durations.values,
            width=min(self.concurrency, self.queued + len(self.flying)),
        )

    def checkpoint_age(self, now: float) -> float:
        """Seconds since the last checkpoint, if there was one."""
        return now - self._checkpoint_at

    def reward_bounds(self) -> Interval | None:
        """The mean reward of this run if all its unfinished rows brought 0, and if all brought 1."""
        unfinished = self.queued + len(self.flying)
        return bounds(self.rewards.total, self.rewards.count, unfinished)
