"""What the rows in flight share, and what they add up to."""

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
import trio
from attrs import define, field
from msgspec import Raw

from triocollect.checkpoint.orders import Ended, Ending
from triocollect.collector.air import Air
from triocollect.collector.row_clock import RowClock
from triocollect.collector.send import Send
from triocollect.collector.sinks import Sinks
from triocollect.events import Listener
from triocollect.flight.budget import RetryBudget, TimeBudget
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.routing import Routing, Target
from triocollect.metrics import RewardMean
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.rows.types import Row


class Result(msgspec.Struct, frozen=True):
    """What a run hands to the program that called it, after it is written.

    `record` is the line without its newline; `place` says which file it went to.
    """

    key: RowKey
    episode: EpisodeId
    place: Literal["output", "failures"]
    record: bytes
    reward: float | None
    failure_class: str | None


HandOver = Callable[[Result], Awaitable[None]]


@define
class Counts:
    """What this run has done so far."""

    failed: dict[RowKey, str]  # rows whose last word is a failure, of all runs
    rewards: RewardMean  # of all runs
    succeeded_now: int = 0
    failed_now: int = 0
    examples: dict[str, str] = field(factory=dict)  # one message for each class of this run's failures


@define
class Fleet:
    """The parts of a run that a row's task works with."""

    gate: Gate
    ledger: Ledger
    retries: RetryBudget
    time: TimeBudget
    sinks: Sinks
    send: Send
    clock: RowClock
    target: Callable[[Row], Target]
    tell: Listener
    counts: Counts
    drift: Raw | None = None  # stamped onto every record, where settings differ by the user's wish
    hand_over: HandOver | None = None
    air: Air | None = None  # where a controller looks on
    routing: Routing | None = None
    began: float = field(factory=trio.current_time)
    ended: Ended | None = None  # how the controller saw it end
    cut_short: bool = False  # rows were left because the time for starting them was over

    @property
    def is_done(self) -> bool:
        """Whether the rows had all the time they wanted: nobody stopped the run."""
        return self.ended is None or self.ended.ending is Ending.DONE

    async def may_be_sent(self, row: Row) -> bool:
        """Wait until nothing of the row can run any more, and until the gate is open.

        Returns without a checkpoint where neither has to be waited for: what follows is one step with it.
        False where what ran before cannot be stopped.
        """
        while True:
            if self.air is not None and not await self.air.may_be_sent(row.key):
                return False
            if self.gate.is_open:
                return True
            await self.gate.opened()

    def sent(self, row: Row, episode: EpisodeId) -> None:
        """In flight begins. Raises StorageError; then it must not be sent."""
        if self.air is not None and self.routing is not None:
            self.air.sent(row, episode, self.routing)

    def landed(self, row: Row) -> None:
        """The row has left the in-flight set."""
        if self.air is not None:
            self.air.landed(row.key)

    def is_over(self) -> bool:
        """Whether no more rows are to be started; once it is so, the run is cut short."""
        self.cut_short |= self.time.is_spent(trio.current_time() - self.began)
        return self.cut_short
