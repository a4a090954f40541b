"""From what earlier runs left to what is still to be done, at which attempt. Pure.

By identity, never by count or position. Every rule about which row runs again is here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Raw

from triocollect.protocol.ids import RowKey
from triocollect.records.findings import KeySet
from triocollect.records.output import OutputScan
from triocollect.records.sidecar import SidecarScan
from triocollect.rows.types import Row


class Survey:
    """Where each row of the data set stands: finished keys, compactly, and details of tried rows only."""

    def __init__(self, output: OutputScan, sidecar: SidecarScan, max_rollout_attempts: int) -> None:
        """`max_rollout_attempts` is Gym's budget: so many sidecar lines, and a row is not tried again."""
        self.done: Final = output.done
        self._tried: Final = sidecar.tried
        self._attempts: Final = output.attempts
        self.max_rollout_attempts: Final = max_rollout_attempts
        self.expected = self.done_expected = self.terminal = self.exhausted = 0
        self.failed: Final[dict[RowKey, str]] = {}  # rows of the data set whose last word is a failure
        self.unknown: Final = KeySet()  # finished rows that the data set does not have
        self._elapsed: Final[dict[RowKey, float]] = {}

    def look_over(self, read_rows: Callable[[], Iterable[Row]], rows: int) -> None:
        """Look at the whole data set of so many rows before anything is sent.

        Twice where the output has strange rows, and not at all where no earlier run left anything.
        """
        if not len(self.done) and not self._tried:
            self.expected = rows
            return
        for row in read_rows():
            self.expected += 1
            if row.key in self.done:
                self.done_expected += 1
            elif (tried := self._tried.get(row.key)) is not None:
                self.failed[row.key] = tried.failure_class
                self.terminal += tried.terminal
                self.exhausted += not tried.terminal and tried.lines >= self.max_rollout_attempts
                if tried.elapsed_s is not None and self.is_left(row.key):
                    self._elapsed[row.key] = tried.elapsed_s
        if self.done_expected < len(self.done):
            self.unknown.update(self.done)
            for row in read_rows():
                self.unknown.discard(row.key)

    def is_left(self, key: RowKey) -> bool:
        """Whether the row is to be sent: not done, not failed for good, not out of its budget."""
        if key in self.done:
            return False
        tried = self._tried.get(key)
        return tried is None or (not tried.terminal and tried.lines < self.max_rollout_attempts)

    def used_attempts(self) -> dict[RowKey, int]:
        """The highest attempt that any file knows, for rows that are left and were tried."""
        used = {key: tried.attempt for key, tried in self._tried.items() if self.is_left(key)}
        for key, attempt in self._attempts.items():
            if self.is_left(key):
                used[key] = max(attempt, used.get(key, 0))
        return used

    def replied_attempts(self) -> dict[RowKey, int]:
        """The highest attempt that an environment answered with a failure, for rows that are left."""
        replied = ((key, tried.replied) for key, tried in self._tried.items() if self.is_left(key))
        return {key: attempt for key, attempt in replied if attempt is not None}

    def reusable(self) -> Mapping[RowKey, Raw]:
        """`reuse_cached_deliverable` of earlier failures, for rows that are left."""
        return {
            key: tried.reuse_cached_deliverable
            for key, tried in self._tried.items()
            if tried.reuse_cached_deliverable is not None and self.is_left(key)
        }

    def left(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows to send, in input order."""
        return (row for row in rows if self.is_left(row.key))

    def longest_first(self, rows: Iterable[Row]) -> list[Row]:
        """The rows to send whose earlier failure took a known time, longest first."""
        known = [row for row in rows if row.key in self._elapsed]
        return sorted(known, key=lambda row: -self._elapsed[row.key])

    def has_known_length(self, key: RowKey) -> bool:
        """Whether `longest_first` has this row."""
        return key in self._elapsed

    @property
    def to_send(self) -> int:
        """How many rows are left."""
        return self.expected - self.done_expected - self.terminal - self.exhausted

    @property
    def prior_attempts(self) -> tuple[int, int]:
        """(failure lines, distinct rows) in the sidecar, as Gym's resume summary counts them."""
        return sum(tried.lines for tried in self._tried.values()), len(self._tried)


def max_rollout_attempts(setting: str | None) -> tuple[int, str | None]:
    """Gym's NEMO_GYM_MAX_ROLLOUT_ATTEMPTS: (number, warning). Default 3; a bad value is 3 with a warning."""
    if setting is None:
        return 3, None
    try:
        number = int(setting)
    except ValueError:
        number = 0
    if number >= 1:
        return number, None
    return 3, f"NEMO_GYM_MAX_ROLLOUT_ATTEMPTS={setting!r} is not a whole number above 0; taking 3"
