"""How many rows may fly; closed for a checkpoint."""

from typing import Final, final

import trio

from triocollect.protocol.ids import RowKey


@final
class Gate:
    """Lets rows in, in order, so many at a time. Closed: none; those in flight go on.

    One CapacityLimiter is both the concurrency limit and the checkpoint's gate (width 0 needs trio >= 0.32).
    The borrower is the row, not the task: the feeding loop enters, the row's task leaves.
    """

    def __init__(self, width: int) -> None:
        self.width: Final = width
        self._limiter: Final = trio.CapacityLimiter(width)
        self._reopened = trio.Event()

    async def enter(self, row: RowKey) -> None:
        """Wait for a place. A place is not leave to send: see `opened`."""
        await self._limiter.acquire_on_behalf_of(row)

    def leave(self, row: RowKey) -> None:
        """Give the place to whoever waits longest."""
        self._limiter.release_on_behalf_of(row)

    def close(self) -> None:
        """No row starts from here on; those in flight go on. Repeating it changes nothing."""
        if self._limiter.total_tokens != 0:
            self._limiter.total_tokens, self._reopened = 0, trio.Event()

    def open(self) -> None:
        """Let rows in again, and wake those that hold a place and wait to send."""
        self._limiter.total_tokens = self.width
        self._reopened.set()

    @property
    def is_open(self) -> bool:
        """Whether a row that has a place may be sent."""
        return self._limiter.total_tokens != 0

    async def opened(self) -> None:
        """Return without a checkpoint when open: what follows is one synchronous step with the question.

        A waiter that was handed its place in the tick of the close runs on after it, so every send asks here.
        """
        while self._limiter.total_tokens == 0:
            await self._reopened.wait()

    def __repr__(self) -> str:
        used = self._limiter.borrowed_tokens
        return f"<Gate {used} of {self._limiter.total_tokens} in, {self.waiting} waiting>"

    @property
    def waiting(self) -> int:
        """Rows that wait for a place."""
        return self._limiter.statistics().tasks_waiting
