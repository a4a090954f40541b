"""What the controller needs of the run that it works for."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol, TypeAlias, TypeVar

from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.protocol.ids import EpisodeId

Blocking: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]  # runs what may block for long

T = TypeVar("T")


async def answer_of(blocking: Blocking, work: Callable[[], T]) -> T:
    """What the work returns; raises what it raises."""
    answers: list[T] = []
    await blocking(lambda: answers.append(work()))
    return answers[0]


class Airspace(Protocol):
    """The rows of a run, as far as a checkpoint is concerned."""

    @property
    def gate(self) -> Gate:
        """Closed while a checkpoint is open."""

    @property
    def ledger(self) -> Ledger:
        """Where each unfinished row stands."""

    async def sync(self) -> None:
        """Make output, sidecar and dispatch log durable as they are now.

        Raises StorageError, which ends the run: it is no checkpoint's fault.
        """

    async def ended(self, episodes: Collection[EpisodeId]) -> None:
        """Return when none of these is in flight any more: answered, refused, or without a reply."""

    def uncontrolled(self) -> Mapping[EpisodeId, str]:
        """Rows in flight that no checkpoint can continue whatever participants say, and why.

        Such as those whose environment server takes no part.
        """

    def work_s(self, episodes: Collection[EpisodeId]) -> float:
        """Seconds since these were sent, added up; one that was not sent yet counts nothing."""

    def retired(self) -> None:
        """The ledger has fewer lost rows than before: whoever waits for that may look again."""

    def cancel_rows(self) -> None:
        """The run stops: rows in flight are given up without being retired, and none starts any more."""
