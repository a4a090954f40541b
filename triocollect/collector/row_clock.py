"""How long rows may take, on a clock that stands while nothing can happen to them.

While the process is suspended replies arrive that nobody reads, and while a checkpoint is open everybody
waits: neither is the row's fault. So the clock is advanced in ticks, and a tick that took much longer than it
should counts only once; whoever was answered meanwhile has been heard by then.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

TICK_S: Final = 0.25
_SUSPENDED: Final = 4  # ticks in one


class RowClock:
    """Bounds rows by `timeout_s`; None: not at all. `stands` says that no time passes now."""

    def __init__(self, timeout_s: float | None, stands: Callable[[], bool] = lambda: False) -> None:
        self.timeout_s: Final = timeout_s
        self._stands: Final = stands
        self._now = 0.0
        self._ends: Final = OrderedDict[trio.CancelScope, float]()  # soonest first: all have the same time

    @contextmanager
    def limit(self) -> Iterator[trio.CancelScope]:
        """The body is left when the row's time is over; the scope's `cancelled_caught` tells."""
        with trio.CancelScope() as scope:
            if self.timeout_s is not None:
                self._ends[scope] = self._now + self.timeout_s
            try:
                yield scope
            finally:
                self._ends.pop(scope, None)

    async def run(self) -> None:
        """A service: let time pass."""
        if self.timeout_s is None:
            return
        while True:
            before = trio.current_time()
            await trio.sleep(TICK_S)
            passed = trio.current_time() - before
            if self._stands():
                continue
            self._now += passed if passed < _SUSPENDED * TICK_S else TICK_S
            while self._ends and next(iter(self._ends.values())) <= self._now:
                scope, _ = self._ends.popitem(last=False)
                scope.cancel()
