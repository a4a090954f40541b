"""Orders that were given to one worker, and what came of them."""

from collections.abc import Mapping
from typing import Final, final

import anyio

from triocollect.errors import StateError
from triocollect.participant.workers import frames
from triocollect.participant.workers.crew import named
from triocollect.participant.workers.link import Outbox


@final
class Asked:
    """An order that was given; `done` stays None where the worker was lost before it answered."""

    def __init__(self) -> None:
        self.over: Final = anyio.Event()
        self.done: frames.Done | None = None


@final
class Slot:
    """What goes to one worker, and the orders that it has not answered."""

    def __init__(self) -> None:
        self.outbox: Final = Outbox()
        self.asked: Final[dict[int, Asked]] = {}

    def answered(self, done: frames.Done) -> None:
        """Wake whoever waits for it."""
        asked = self.asked.pop(done.number)
        asked.done = done
        asked.over.set()

    def gone(self) -> None:
        """Nobody answers any more."""
        for asked in self.asked.values():
            asked.over.set()


def well(answers: Mapping[int, frames.Done | None]) -> dict[int, frames.Done]:
    """The answers. Raises StateError for the first that is not there or says what went wrong."""
    well = {}
    for worker, done in answers.items():
        if done is None:
            raise StateError(f"{named(worker)} was lost")
        if done.fault is not None:
            raise StateError(f"{named(worker)}: {done.fault}")
        well[worker] = done
    return well
