"""How often a row without a reply is sent again, and until when rows are started. Pure."""

from collections import deque
from typing import Final

SENDS_PER_ROW: Final = 1.2  # all sends together stay at or below this many per row sent at least once
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
LONGEST_WISH_S: Final = 300.0  # of a server's Retry-After; one that asks for a day is not obeyed
_FEW: Final = 5  # fewer finished rows say nothing about how long one takes
_REMEMBERED: Final = 512


class RetryBudget:
    """Bounds what a dead or overloaded server can cost: per row, and for all rows together."""

    def __init__(self, max_attempts: int) -> None:
        self._max_attempts: Final = max_attempts
        self._promised = 0  # rows that may be sent again and have not been: many are lost at once
        self.rows = 0
        self.sends = 0

    def sent(self, nth: int) -> None:
        """A row is sent for the nth time by this run, counted from 1; above that it was promised."""
        self.sends += 1
        self.rows += nth == 1
        self._promised -= nth > 1

    def taken_back(self, nth: int) -> None:
        """That send did not count: the server was closed for a checkpoint. What was promised still is."""
        self.sends -= 1
        self.rows -= nth == 1
        self._promised += nth > 1

    def promises_another(self, sends_of_row: int) -> bool:
        """Whether a row that was sent so often may be sent once more, for which its share is kept."""
        kept = self.sends + self._promised + 1 <= SENDS_PER_ROW * self.rows
        promised = kept and sends_of_row < self._max_attempts
        self._promised += promised
        return promised

    def given_up(self, nth: int) -> None:
        """A row is not sent for the nth time after all."""
        self._promised -= nth > 1


class TimeBudget:
    """No row is started that would likely not end within `budget_s` seconds of the run's beginning."""

    def __init__(self, budget_s: float | None, margin_s: float | None) -> None:
        self._budget_s: Final = budget_s
        self._margin_s: Final = margin_s
        self._durations: Final[deque[float]] = deque(maxlen=_REMEMBERED)

    def finished(self, seconds: float) -> None:
        """A row took so long."""
        if self._budget_s is not None:
            self._durations.append(seconds)

    @property
    def margin_s(self) -> float:
        """As set, else the 75th percentile of finished rows once there are five (Gym 0.7.0's rule)."""
        if self._margin_s is not None:
            return self._margin_s
        if len(self._durations) < _FEW:
            return 0.0
        return sorted(self._durations)[3 * len(self._durations) // 4]

    def is_spent(self, elapsed_s: float) -> bool:
        """Whether to start no more rows."""
        return self._budget_s is not None and elapsed_s + self.margin_s >= self._budget_s


def pause_s(nth: int, retry_after_s: float | None, luck: float) -> float:
    """Seconds before the next send, after the nth: what the server asks for, else longer each time.

    `luck` from 0 to 1 spreads the sends of many rows that failed together; never below FIRST_PAUSE_S, so
    that a server which asks for no pause at all is not asked in a loop.
    """
    if retry_after_s is not None:
        wish = min(max(retry_after_s, FIRST_PAUSE_S), LONGEST_WISH_S)
        return wish * (1 + luck / 10)
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(nth, 10))
    return FIRST_PAUSE_S + luck * (longest - FIRST_PAUSE_S)
