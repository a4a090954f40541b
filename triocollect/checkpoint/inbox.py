"""What the controller was asked and has not done yet: who waits, who merges, who overtakes.

Everything that asks is synchronous, so signals, the timer, rows and the library may ask at any moment; one
task takes the orders, one at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import trio

from triocollect.checkpoint.orders import (
    Checkpoint,
    Leave,
    NotPublished,
    Order,
    Retire,
    RowsDone,
    Stop,
    Taken,
    Why,
    nothing_tried,
)


class Stoppable(Protocol):
    """What the controller is doing right now, as far as it can be told something."""

    def stop(self, by: float) -> bool:
        """The run is to end at `by`: turn into the stop (True), or make way for it (False)."""
        ...

    def give_up(self) -> None:
        """The run is to end at once."""


class Inbox:
    """Orders that wait. `grace_s` is how long a stop may take."""

    def __init__(self, grace_s: float, *, now: float) -> None:
        self.grace_s: Final = grace_s
        self.stop_by: float | None = None  # the run was told to stop, and when it has to have ended
        self._left = trio.Event()  # told again, with the keyboard: no checkpoint any more
        self.cutting = False  # a checkpoint was taken out and has not ended
        self.rested_since = now  # end of the last checkpoint
        self._under_way: Stoppable | None = None
        self._checkpoint: Why | None = None
        self._stop = self._retire = self._rows_done = False
        self._interrupts = 0
        self._asking: list[_Asking] = []  # wait for the next checkpoint
        self._answering: list[_Asking] = []  # wait for the one that was taken out
        self._closed: str | None = None
        self._wake = trio.Event()
        self._rested = trio.Event()

    # -- asking ---------------------------------------------------------------------------------------------

    def stop(self, now: float) -> None:
        """A TERM: a checkpoint under way becomes the stop, unless it resumes already. Once is enough."""
        if self.stop_by is not None:
            return
        self.stop_by = now + self.grace_s
        turned = self._under_way is not None and self._under_way.stop(self.stop_by)
        self._stop = not turned
        self._wake.set()

    def interrupt(self, now: float) -> None:
        """A Ctrl-C: the first is a TERM, the second gives everything up."""
        self._interrupts += 1
        if self._interrupts == 1:
            self.stop(now)
            return
        self._left.set()
        if self._under_way is not None:
            self._under_way.give_up()
        self._wake.set()

    def checkpoint(self, why: Why) -> None:
        """One more checkpoint; all who ask while none has begun get the same.

        Whoever asks outdoes the timer, which is content with none where nothing is in flight.
        """
        self._checkpoint = why if self._checkpoint in {None, "timer"} else self._checkpoint
        self._wake.set()

    async def ask(self) -> Taken:
        """One more checkpoint, and what comes of it."""
        if self._closed is not None:
            return nothing_tried(self._closed)
        asking = _Asking()
        self._asking.append(asking)
        self.checkpoint("library")
        await asking.answered.wait()
        assert asking.taken is not None
        return asking.taken

    def retire(self) -> None:
        """A row brought no reply."""
        self._retire = True
        self._wake.set()

    def rows_done(self) -> None:
        """No row will be sent any more."""
        self._rows_done = True
        self._wake.set()

    # -- the controller's side ------------------------------------------------------------------------------

    def take(self) -> Order | None:
        """What is to be done next; None when nothing is. It is the taker's from now on."""
        if self.is_left:
            return Leave()
        if self._stop and not self._rows_done:
            assert self.stop_by is not None
            self._stop = False
            self._begin()
            return Stop(self.stop_by)
        if self._checkpoint is not None:
            order = Checkpoint(self._checkpoint)
            self._begin()
            return order
        if self._retire and self.stop_by is None:
            self._retire = False
            return Retire()
        return RowsDone() if self._rows_done else None

    def _begin(self) -> None:
        self.cutting, self._checkpoint = True, None
        self._answering += self._asking
        self._asking = []

    async def next(self) -> Order:
        """Wait for an order and take it."""
        while (order := self.take()) is None:
            self._wake = trio.Event()
            await self._wake.wait()
        return order

    @property
    def owes_word(self) -> bool:
        """Whether a checkpoint was asked for that has not ended."""
        return self.cutting or self._checkpoint is not None

    @property
    def is_left(self) -> bool:
        """Whether everything is to be given up at once."""
        return self._left.is_set()

    async def left_within(self, seconds: float) -> bool:
        """Wait so long, less when everything is to be given up; whether it is."""
        with trio.move_on_after(seconds):
            await self._left.wait()
        return self.is_left

    @contextmanager
    def doing(self, under_way: Stoppable) -> Iterator[None]:
        """What is asked meanwhile is told to this first."""
        outer, self._under_way = self._under_way, under_way
        try:
            yield
        finally:
            self._under_way = outer

    @contextmanager
    def giving_way(self) -> Iterator[None]:
        """The body is left at once when the run is told to stop, and not begun when it was."""
        with trio.CancelScope() as scope, self.doing(_GivingWay(scope)):
            if self.stop_by is not None or self.is_left:
                scope.cancel()
            yield

    def taken(self, taken: Taken, now: float) -> None:
        """A checkpoint is over: answer those who asked for it."""
        answering, self._answering = self._answering, []
        for asking in answering:
            asking.answer(taken)
        self.cutting, self.rested_since = False, now
        self._rested.set()
        self._rested = trio.Event()

    async def rested(self) -> None:
        """Wait for the end of the next checkpoint, or of the one under way."""
        await self._rested.wait()

    def close(self, why: str) -> None:
        """Nobody takes orders any more; who asks is told `why`."""
        self._closed = why
        for asking in (*self._answering, *self._asking):
            asking.answer(nothing_tried(why))
        self._answering, self._asking = [], []


class _Asking:
    def __init__(self) -> None:
        self.answered: Final = trio.Event()
        self.taken: Taken | None = None

    def answer(self, taken: Taken | NotPublished) -> None:
        self.taken = taken
        self.answered.set()


class _GivingWay:
    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope: Final = scope

    def stop(self, by: float) -> bool:  # noqa: ARG002  # at once
        self._scope.cancel()
        return False

    def give_up(self) -> None:
        self._scope.cancel()


async def tick(inbox: Inbox, every_s: float) -> None:
    """A service: ask for a checkpoint `every_s` seconds after the end of the last one."""
    while True:
        await trio.sleep_until(inbox.rested_since + every_s)
        if trio.current_time() < inbox.rested_since + every_s:
            continue  # another one ended meanwhile
        if not inbox.cutting:
            inbox.checkpoint("timer")
        await inbox.rested()
