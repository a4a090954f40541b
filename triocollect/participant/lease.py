"""How long a closed participant waits for another call before it opens by itself."""

import math
from typing import Final, final

import anyio

_MS: Final = 1000.0


@final
class Lease:
    """Ends `lease_ms` after the latest (arrival + budget) of the calls it heard. No task watches it.

    On the event loop's monotonic clock, so a clock that is set cannot end it.
    """

    def __init__(self) -> None:
        self._end = self._kept_elsewhere_until = math.inf
        self.budget_s = math.inf  # of the call that was heard last

    def heard(self, arrival: float, budget_ms: int, lease_ms: int) -> None:
        """A call of the open operation came; `arrival` in seconds of `anyio.current_time`."""
        self.budget_s = budget_ms / _MS
        end = arrival + (budget_ms + lease_ms) / _MS
        self._end = end if math.isinf(self._end) else max(self._end, end)

    def kept_elsewhere(self, left_s: float) -> None:
        """Another process keeps the lease, and opens this one when it ends, in so many seconds."""
        self._kept_elsewhere_until = anyio.current_time() + left_s

    def clear(self) -> None:
        """Nothing is open."""
        self._end = self._kept_elsewhere_until = self.budget_s = math.inf

    def left_s(self) -> float:
        """Seconds until the end, below zero after it; infinite when nothing is open."""
        return self._end if math.isinf(self._end) else self._end - anyio.current_time()

    def longest_s(self) -> float:
        """Seconds until the end of this lease, or of the one that is kept elsewhere; infinite without one."""
        end = min(self._end, self._kept_elsewhere_until)
        return end if math.isinf(end) else end - anyio.current_time()

    def left_ms(self) -> int | None:
        """The same for the wire: whole milliseconds, at least 0; None when nothing is open."""
        return None if math.isinf(self._end) else max(0, round(self.left_s() * _MS))
