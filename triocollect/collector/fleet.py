"""What the rows in flight share, and what they add up to."""

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
import trio
from attrs import define, field
from msgspec import Raw

from triocollect.checkpoint.orders import Ended, RowsEnd
from triocollect.collector.row_clock import RowClock
from triocollect.collector.send import Send
from triocollect.collector.sinks import Sinks
from triocollect.collector.watch import Watch
from triocollect.events import Listener
from triocollect.flight.budget import RetryBudget, TimeBudget
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.routing import Target
from triocollect.metrics import RewardMean
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.report.run_report import Continued
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
    not_continued: int = 0  # rows that were restored, refused by their servers, and began anew
    examples: dict[str, str] = field(factory=dict)  # one message for each class of this run's failures


@define
class Fleet:
    """The parts of a run that a row's task works with."""

    gate: Gate
    watch: Watch
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
    continued: Continued | None = None  # what an earlier run left
    began: float = field(factory=trio.current_time)
    ended: Ended = field(factory=lambda: Ended(RowsEnd.DONE))  # how the controller saw it end
    cut_short: bool = False  # rows were left because the time for starting them was over

    @property
    def ledger(self) -> Ledger:
        """Where each unfinished row stands."""
        return self.watch.ledger

    @property
    def is_done(self) -> bool:
        """Whether the rows had all the time they wanted: nobody stopped the run."""
        return self.ended.ending is RowsEnd.DONE

    def is_over(self) -> bool:
        """Whether no more rows are to be started; once it is so, the run is cut short."""
        self.cut_short |= self.time.is_spent(trio.current_time() - self.began)
        return self.cut_short
