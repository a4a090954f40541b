"""One row: from its place in the gate to its last word of this run.

The order of facts: send, reply, line written, out of the in-flight set, out of the gate. Between the last
three there is no await, so nobody ever sees a row that is answered but not written, or the reverse.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec
import trio
from attrs import define, field
from msgspec import Raw

from triocollect.collector.outcome import Failure, NoReply, NothingRan, Outcome, Refused, Success, Unpersisted
from triocollect.collector.reply import Sent, given_up
from triocollect.collector.send import Send
from triocollect.collector.sinks import Sinks
from triocollect.errors import StorageError
from triocollect.events import Listener, RowFailed, RowLeft, RowRetried, RowSent, RowSucceeded
from triocollect.flight.budget import RetryBudget, TimeBudget
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.records import encode_record
from triocollect.gym.routing import Target
from triocollect.metrics import RewardMean
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.rows.types import Row

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_REWARD_CLUSTERS: Final = 1024  # the interval is exact up to so many tasks, and memory is bounded
DRIFT_KEY: Final = "_ng_accepted_drift"


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
    succeeded_now: int = 0
    failed_now: int = 0
    rewards: RewardMean = field(factory=lambda: RewardMean(_REWARD_CLUSTERS))


@define
class Fleet:
    """What the rows in flight share."""

    gate: Gate
    ledger: Ledger
    retries: RetryBudget
    time: TimeBudget
    sinks: Sinks
    send: Send
    target: Callable[[Row], Target]
    tell: Listener
    counts: Counts
    drift: Raw | None = None  # stamped onto every record, where settings differ by the user's wish
    hand_over: HandOver | None = None
    began: float = field(factory=trio.current_time)

    def is_over(self) -> bool:
        """Whether no more rows are to be started."""
        return self.time.is_spent(trio.current_time() - self.began)


async def fly(fleet: Fleet, row: Row) -> None:
    """The task of a row that was let in. Raises StorageError; nothing else a row does ends a run."""
    sends = 0
    while True:
        try:
            await fleet.gate.opened()
            sends += 1
            episode = _start(fleet, row, sends)
            began = trio.current_time()
            outcome = await fleet.send(row, episode)
            flight = Flight(row, episode, sends, trio.current_time() - began)
            pause_s, result = _settle(fleet, flight, outcome)
            if result is not None and fleet.hand_over is not None:
                await fleet.hand_over(result)
        except StorageError:
            fleet.gate.close()  # the run ends here: the place that is given back must start no other row
            raise
        finally:
            fleet.gate.leave(row.key)
        if pause_s is None:
            return
        await trio.sleep(pause_s)
        if fleet.is_over():
            fleet.tell(RowLeft(row.key, "the dispatch budget is spent"))
            return
        await fleet.gate.enter(row.key)


class Flight(msgspec.Struct, frozen=True):
    """One send of a row that has come to its end. `nth` send of this run, from 1."""

    row: Row
    episode: EpisodeId
    nth: int
    seconds: float


def _start(fleet: Fleet, row: Row, nth: int) -> EpisodeId:
    episode = fleet.ledger.start(row.key, row.rollout_id)
    fleet.retries.sent(nth)
    fleet.tell(RowSent(row.key, episode, row.agent))
    return episode


def _settle(fleet: Fleet, flight: Flight, outcome: Outcome) -> tuple[float | None, Result | None]:
    """Write down how a send ended, in one synchronous step: (seconds until the next send, the result)."""
    match outcome:
        case Success():
            return None, _succeed(fleet, flight, outcome)
        case Failure():
            return None, _fail(fleet, flight, outcome)
        case Unpersisted():
            fleet.ledger.replied(flight.row.key)
            fleet.tell(RowLeft(flight.row.key, "the environment asked that nothing be written"))
            return None, None
        case NothingRan() | NoReply() | Refused():
            return _again(fleet, flight, outcome)


def _again(
    fleet: Fleet, flight: Flight, outcome: NothingRan | NoReply | Refused
) -> tuple[float | None, Result | None]:
    """Send once more after a pause, as the same attempt or the next; or give the row up for this run."""
    closed = isinstance(outcome, NothingRan) and outcome.kind == "checkpoint_open"
    if closed:
        fleet.retries.taken_back(flight.nth)
    elif not fleet.retries.allows_another(flight.nth):
        sent = Sent(flight.row, flight.episode, fleet.target(flight.row))
        return None, _fail(fleet, flight, given_up(sent, outcome))
    if isinstance(outcome, NothingRan):
        fleet.ledger.nothing_ran(flight.row.key)
    else:
        fleet.ledger.no_reply(flight.row.key)
    pause_s = _pause_s(flight.nth, outcome.retry_after_s)
    fleet.tell(RowRetried(flight.row.key, flight.episode, outcome.reason, pause_s))
    return pause_s, None


def _succeed(fleet: Fleet, flight: Flight, success: Success) -> Result:
    row, episode, counts = flight.row, flight.episode, fleet.counts
    line = _line(fleet, success.fields)
    fleet.sinks.append_result(line, episode)
    fleet.ledger.replied(row.key)
    fleet.time.finished(flight.seconds)
    counts.succeeded_now += 1
    counts.failed.pop(row.key, None)
    if success.reward is not None:
        counts.rewards.add(row.key.task, success.reward)
    fleet.tell(RowSucceeded(row.key, episode, row.agent, success.reward, flight.seconds))
    return Result(row.key, episode, "output", line[:-1], success.reward, None)


def _fail(fleet: Fleet, flight: Flight, failure: Failure) -> Result:
    row, episode, counts = flight.row, flight.episode, fleet.counts
    line = _line(fleet, failure.fields)
    fleet.sinks.append_failure(line, episode)
    fleet.ledger.replied(row.key)
    counts.failed_now += 1
    counts.failed[row.key] = failure.failure_class
    seconds = flight.seconds
    fleet.tell(RowFailed(row.key, episode, row.agent, failure.failure_class, failure.message, seconds))
    return Result(row.key, episode, "failures", line[:-1], None, failure.failure_class)


def _line(fleet: Fleet, fields: dict[str, Raw]) -> bytes:
    if fleet.drift is not None:
        fields[DRIFT_KEY] = fleet.drift
    return encode_record(fields)


def _pause_s(nth: int, retry_after_s: float | None) -> float:
    if retry_after_s is not None:
        return min(retry_after_s, _LONGEST_PAUSE_S)
    doubled = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**nth)
    return random.uniform(_FIRST_PAUSE_S, doubled)  # noqa: S311  # spreads load, guards nothing
