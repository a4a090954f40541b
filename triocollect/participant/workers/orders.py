"""Orders that are given to the workers that are there, and what comes of them."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

import anyio
import msgspec

from triocollect.errors import StateError
from triocollect.participant.workers import frames
from triocollect.participant.workers.crew import named
from triocollect.participant.workers.link import Outbox
from triocollect.telemetry.logs import whose


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


MakeOrder: TypeAlias = Callable[[int, int], frames.Order]  # of the order's number and the worker's


@final
class Orders:
    """The workers that are there, and what each is told."""

    def __init__(self) -> None:
        self._slots: Final[dict[int, Slot]] = {}
        self._given = 0

    def joined(self, worker: int) -> Slot:
        """It is there from now on."""
        slot = self._slots[worker] = Slot()
        return slot

    def lost(self, worker: int) -> None:
        """It is not there any more: nobody waits for it."""
        self._slots.pop(worker).gone()

    def tell(self, frame: Callable[[], bytes]) -> None:
        """Send a frame to everybody who is there; it is made when it is sent."""
        for slot in self._slots.values():
            slot.outbox.put(frame)

    def give(self, order: MakeOrder) -> Mapping[int, Asked]:
        """Give everybody who is there an order."""
        return {worker: self._ask(slot, worker, order) for worker, slot in self._slots.items()}

    async def answers(self, order: MakeOrder) -> dict[int, frames.Done | None]:
        """The same, and what each answers; None from one that was lost."""
        asked = self.give(order)
        for one in asked.values():
            await one.over.wait()
        return {worker: one.done for worker, one in asked.items()}

    def _ask(self, slot: Slot, worker: int, order: MakeOrder) -> Asked:
        self._given += 1
        asked = slot.asked[self._given] = Asked()
        given = msgspec.structs.replace(order(self._given, worker), whose=whose())
        slot.outbox.put(lambda: frames.encode(given))
        return asked


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
