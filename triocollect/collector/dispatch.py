"""One row: from its place in the gate to its last word of this run.

The order of facts: send, reply, line written, out of the in-flight set, out of the gate. Between the last
three there is no await, so nobody ever sees a row that is answered but not written, or the reverse.
"""

import random
from typing import TypeAlias

import msgspec
import trio
from msgspec import Raw

from triocollect.collector.fleet import Fleet, Result
from triocollect.collector.outcome import (
    Closed,
    Failure,
    NoReply,
    NothingRan,
    Outcome,
    Overtaken,
    Refused,
    Success,
    Unpersisted,
)
from triocollect.collector.reply import SentRow, given_up
from triocollect.errors import RefusedError
from triocollect.events import RowFailed, RowLeft, RowRetried, RowSent, RowSucceeded
from triocollect.flight.budget import pause_s
from triocollect.gym.records import encode_record
from triocollect.protocol.ids import EpisodeId
from triocollect.records.causes import cause_of
from triocollect.rows.types import Row

MOST_KNOCKS = 20  # some minutes, at a server that a continued row belongs to
DRIFT_KEY = "_ng_accepted_drift"


class Flight(msgspec.Struct, frozen=True):
    """One send of a row that has come to its end. `nth` send of this run that counts, from 1."""

    row: Row
    episode: EpisodeId
    nth: int
    seconds: float


class Again(msgspec.Struct, frozen=True):
    """The row is to be sent once more after a pause. `counts`: this send was one of those it has."""

    pause_s: float
    counts: bool


class LastWord(msgspec.Struct, frozen=True):
    """The row's last word of this run; None where nothing was to be written."""

    result: Result | None


End: TypeAlias = Again | LastWord


async def fly(fleet: Fleet, row: Row) -> None:
    """The task of a row that was let in.

    Raises StorageError, and what the caller's own functions raise; nothing else a row does ends a run.
    """
    counted = closed = 0
    while True:
        try:
            end = await _send(fleet, row, counted + 1, closed)
            if isinstance(end, LastWord) and end.result is not None and fleet.hand_over is not None:
                await fleet.hand_over(end.result)
        except Exception:
            fleet.gate.close()  # the run ends here: the place that is given back must start no other row
            raise
        finally:
            fleet.gate.leave(row.key)
        if isinstance(end, LastWord):
            return
        counted, closed = (counted + 1, 0) if end.counts else (counted, closed + 1)
        await trio.sleep(end.pause_s)
        if (why := await _why_no_more(fleet, row)) is not None:
            fleet.retries.given_up(counted + 1)
            fleet.tell(RowLeft(row.key, why, row.rollout_id))
            return
        await fleet.gate.enter(row.key)


async def _why_no_more(fleet: Fleet, row: Row) -> str | None:
    """Without a place in the gate: wait until the row may be sent again, or say why it is not."""
    if not await fleet.watch.stopped(row.key):
        return "what ran of it before could not be stopped everywhere"
    return "the dispatch budget is spent" if fleet.is_over() else None


async def _send(fleet: Fleet, row: Row, nth: int, closed: int) -> End:
    await fleet.gate.opened()
    if fleet.watch.is_lost(row.key):
        return Again(0.0, counts=False)
    episode = fleet.ledger.start(row.key, row.rollout_id)
    fleet.watch.sent(row, episode)
    fleet.retries.sent(nth)
    fleet.tell(RowSent(row.key, episode, row.agent))
    began = trio.current_time()
    outcome = await fleet.send(row, episode)
    end = _settle(fleet, Flight(row, episode, nth, trio.current_time() - began), outcome, closed)
    fleet.watch.landed(row.key)
    return end


def _settle(fleet: Fleet, flight: Flight, outcome: Outcome, closed: int) -> End:
    """Write down how a send ended, in one synchronous step. `closed`: so often in a row the server was."""
    match outcome:
        case Success():
            return LastWord(_succeed(fleet, flight, outcome))
        case Failure():
            return LastWord(_fail(fleet, flight, outcome))
        case Unpersisted():
            fleet.watch.unpersisted(flight.episode)
            fleet.ledger.replied(flight.row.key)
            _leave(fleet, flight, "the environment asked that nothing be written")
            return LastWord(None)
        case Closed():
            _nothing_ran(fleet, flight)
            fleet.retries.taken_back(flight.nth)
            return _again(fleet, flight, outcome, closed + 1, counts=False)
        case NothingRan() | Refused() if flight.row.key in fleet.ledger.continuing:
            return _not_begun(fleet, flight, outcome, closed)
        case NothingRan() | NoReply() | Refused():
            return _try_again(fleet, flight, outcome)
        case Overtaken():
            raise RefusedError(f"another collector commands the servers now: {outcome.reason}")


def _leave(fleet: Fleet, flight: Flight, why: str) -> None:
    fleet.tell(RowLeft(flight.row.key, why, flight.episode.rollout_id, flight.episode.attempt))


def _not_begun(fleet: Fleet, flight: Flight, outcome: NothingRan | Refused, closed: int) -> End:
    """A continued row that its server has not taken up, which costs it no send.

    One that is not there yet is asked again: what was restored is worth waiting for. When the patience ends
    the row stays restored, for the next checkpoint and the next run. One that refuses has lost it: the row
    starts from its input.
    """
    fleet.retries.taken_back(flight.nth)
    if isinstance(outcome, Refused):
        fleet.counts.not_continued += 1
        _used_up(fleet, flight, outcome)
    else:
        fleet.ledger.nothing_ran(flight.row.key)
        if closed >= MOST_KNOCKS:
            fleet.retries.given_up(flight.nth)
            _leave(fleet, flight, f"its server cannot be reached: {outcome.reason}")
            return LastWord(None)
    return _again(fleet, flight, outcome, closed + 1, counts=False)


def _try_again(fleet: Fleet, flight: Flight, outcome: NothingRan | NoReply | Refused) -> End:
    """As the same attempt where nothing ran, else as the next; or the row is given up for this run."""
    if not fleet.retries.promises_another(flight.nth):
        return LastWord(_give_up(fleet, flight, outcome))
    if isinstance(outcome, NothingRan):
        _nothing_ran(fleet, flight)
    else:
        _used_up(fleet, flight, outcome)
    return _again(fleet, flight, outcome, flight.nth, counts=True)


def _nothing_ran(fleet: Fleet, flight: Flight) -> None:
    """The same attempt may be sent again. One that was installed is used all the same."""
    if flight.row.key not in fleet.ledger.continuing:
        fleet.watch.nothing_ran(flight.episode)
    fleet.ledger.nothing_ran(flight.row.key)


def _used_up(fleet: Fleet, flight: Flight, outcome: NoReply | Refused) -> None:
    """The row goes on as a later attempt, above all that its server refuses."""
    fleet.ledger.no_reply(flight.row.key)
    if isinstance(outcome, Refused) and outcome.retired_through is not None:
        fleet.ledger.used_through(flight.row.key, outcome.retired_through)


def _again(
    fleet: Fleet, flight: Flight, outcome: Closed | NothingRan | NoReply | Refused, nth: int, *, counts: bool
) -> Again:
    pause = pause_s(nth, outcome.retry_after_s, random.random())  # noqa: S311  # spreads load, guards nothing
    fleet.tell(RowRetried(flight.row.key, flight.episode, outcome.reason, pause))
    return Again(pause, counts)


def _succeed(fleet: Fleet, flight: Flight, success: Success) -> Result:
    row, episode, counts = flight.row, flight.episode, fleet.counts
    line = _line(fleet, success.fields)
    fleet.sinks.append_result(line, episode)
    fleet.ledger.replied(row.key)
    fleet.watch.replied(episode)
    fleet.time.finished(flight.seconds)
    counts.succeeded_now += 1
    counts.failed.pop(row.key, None)
    if success.reward is not None:
        counts.rewards.add(row.key.task, success.reward)
    fleet.tell(RowSucceeded(row.key, episode, row.agent, success.reward, flight.seconds))
    return Result(row.key, episode, "output", line[:-1], success.reward, None)


def _fail(fleet: Fleet, flight: Flight, failure: Failure) -> Result:
    result = _write_failure(fleet, flight, failure)
    fleet.ledger.replied(flight.row.key)
    fleet.watch.replied(flight.episode)
    return result


def _give_up(fleet: Fleet, flight: Flight, outcome: NothingRan | NoReply | Refused) -> Result:
    """A sidecar line without a reply; an attempt that may run still stays to be retired."""
    sent = SentRow(flight.row, flight.episode, fleet.target(flight.row))
    result = _write_failure(fleet, flight, given_up(sent, outcome))
    if isinstance(outcome, NothingRan):
        fleet.ledger.replied(flight.row.key)
    else:
        fleet.ledger.given_up(flight.row.key)
    return result


def _write_failure(fleet: Fleet, flight: Flight, failure: Failure) -> Result:
    row, episode, counts = flight.row, flight.episode, fleet.counts
    line = _line(fleet, failure.fields)
    fleet.sinks.append_failure(line, episode)
    counts.failed_now += 1
    counts.failed[row.key] = failure.failure_class
    if failure.failure_class not in counts.examples:
        counts.examples[failure.failure_class] = cause_of(failure.fields)
    seconds = flight.seconds
    fleet.tell(RowFailed(row.key, episode, row.agent, failure.failure_class, failure.message, seconds))
    return Result(row.key, episode, "failures", line[:-1], None, failure.failure_class)


def _line(fleet: Fleet, fields: dict[str, Raw]) -> bytes:
    if fleet.drift is not None:
        fields[DRIFT_KEY] = fleet.drift
    return encode_record(fields)
