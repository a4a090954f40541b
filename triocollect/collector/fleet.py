"""What the rows in flight share, and what they add up to."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

import msgspec
import trio
from attrs import define, field
from msgspec import Raw

from triocollect.checkpoint.orders import Ended, Ending
from triocollect.collector.row_clock import RowClock
from triocollect.collector.send import Send
from triocollect.collector.sinks import Sinks
from triocollect.events import Listener
from triocollect.flight.budget import RetryBudget, TimeBudget
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.routing import Target
from triocollect.metrics import RewardMean
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.report.run_report import Continued
from triocollect.rows.types import Row

if TYPE_CHECKING:
    from triocollect.collector.air import (
        Air,
    )  # needs httpx, which is slow, and only where checkpoints are taken


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
    air: "Air | None" = None  # where a controller looks on
    continued: Continued | None = None  # what an earlier run left
    began: float = field(factory=trio.current_time)
    ended: Ended | None = None  # how the controller saw it end
    cut_short: bool = False  # rows were left because the time for starting them was over

    @property
    def is_done(self) -> bool:
        """Whether the rows had all the time they wanted: nobody stopped the run."""
        return self.ended is None or self.ended.ending is Ending.DONE

    def is_lost(self, row: Row) -> bool:
        """Whether an attempt of the row may run still that nobody has stopped."""
        return self.air is not None and self.air.is_lost(row.key)

    async def stopped(self, row: Row) -> bool:
        """Wait until what ran of the row before is stopped everywhere; False when that takes too long."""
        return self.air is None or await self.air.stopped(row.key)

    def sent(self, row: Row, episode: EpisodeId) -> None:
        """In flight begins. Raises StorageError; then it must not be sent."""
        if self.air is not None:
            self.air.sent(row, episode)

    def replied(self, episode: EpisodeId) -> None:
        """The episode ended by an answer."""
        if self.air is not None:
            self.air.replied(episode)

    def unpersisted(self, episode: EpisodeId) -> None:
        """The episode ended by an answer that is written nowhere. Raises StorageError."""
        if self.air is not None:
            self.air.unpersisted(episode)

    def landed(self, row: Row) -> None:
        """The row has left the in-flight set."""
        if self.air is not None:
            self.air.landed(row.key)

    def is_over(self) -> bool:
        """Whether no more rows are to be started; once it is so, the run is cut short."""
        self.cut_short |= self.time.is_spent(trio.current_time() - self.began)
        return self.cut_short
