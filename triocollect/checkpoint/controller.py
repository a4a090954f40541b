"""The one task that commands the participants: orders, one at a time.

So a retire never falls into a checkpoint, and nothing else does either. A stop overtakes everything but a
checkpoint under way, which it turns into its own.
"""

import math
from typing import Final

import trio

from triocollect.checkpoint.afterwards import record, tidy
from triocollect.checkpoint.coordination import MOST_AT_ONCE
from triocollect.checkpoint.crew import Crew, UnderWay
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import (
    RUN_ENDED,
    Checkpoint,
    Ended,
    Leave,
    NotPublished,
    Order,
    Published,
    Retire,
    RowsDone,
    RowsEnd,
    Stop,
    Taken,
    Why,
    in_words,
    nothing_tried,
)
from triocollect.checkpoint.taking import take_checkpoint
from triocollect.errors import CheckpointError
from triocollect.events import Note, RetiredRows
from triocollect.protocol.ids import EpisodeId, RowKey

FIRST_PAUSE_S: Final = 1.0  # before what a participant did not answer is repeated; then twice as long
LONGEST_PAUSE_S: Final = 30.0
ANOTHER_TRY: Final = 0.2  # of the grace has to be left for one
FIRST_TRY_PAUSE_S: Final = 1.0  # before the stop's checkpoint is tried again; then twice as long each time
_NOTHING: Final = "no row is in flight"
_NOT_BEGUN: Final = "no row was sent yet, so the checkpoint before still covers everything"


async def command(crew: Crew, inbox: Inbox) -> Ended:
    """Take orders until the run has to end or its rows are done.

    Raises what ends the run; whatever it was, rows are cancelled where it does not return DONE.
    """
    try:
        ended = await _obey(crew, inbox)
    except BaseException:
        inbox.close(RUN_ENDED)
        raise
    if inbox.owes_word and ended.taken is None:  # who asked by a signal waits for a line; a stop has one
        await record(crew, nothing_tried(RUN_ENDED).outcome)
    inbox.close(RUN_ENDED)
    if ended.ending is not RowsEnd.DONE:
        crew.air.cancel_rows()
    return ended


async def _obey(crew: Crew, inbox: Inbox) -> Ended:
    if inbox.stop_by is None:
        await tidy(crew, crew.store.prune)  # after the stop before, which had no time for it
    debts = _Debts(crew, inbox)
    while True:
        match await debts.next_order():
            case Leave():
                return Ended(RowsEnd.INTERRUPTED)
            case Stop(by):
                return await _stop(crew, inbox, by)
            case Checkpoint(why):
                await debts.settle()
                taken = await _checkpoint(crew, inbox, why)
                if taken is not None and taken.stopped:
                    assert inbox.stop_by is not None
                    return await _stop(crew, inbox, inbox.stop_by, taken)
            case Retire():
                await debts.settle()
            case RowsDone():
                await debts.settle()
                return Ended(RowsEnd.DONE)


class _Debts:
    """What participants are owed: resumes that nobody answered, and retires of rows that brought no reply."""

    def __init__(self, crew: Crew, inbox: Inbox) -> None:
        self._crew: Final = crew
        self._inbox: Final = inbox
        self._told: str | None = None  # the same trouble is told once

    async def next_order(self) -> Order:
        """The next order; while there is none, what is owed is tried again."""
        pause_s = FIRST_PAUSE_S
        while True:
            owing = self._crew.coordination.owes or bool(self._crew.air.ledger.lost)
            with trio.move_on_after(pause_s if owing else math.inf):
                return await self._inbox.next()
            await self.settle()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def settle(self) -> None:
        """Try once. A stop has no time for it: what stays owed is found in the log by the next run.

        The rows are those of the beginning; who is lost meanwhile has another turn.
        """
        with self._inbox.giving_way():
            await self._crew.coordination.settle_owed()
            if self._crew.coordination.owes:
                return  # closed participants retire nothing
            lost = list(self._crew.air.ledger.lost.items())
            for start in range(0, len(lost), MOST_AT_ONCE):
                if not await self._retire(dict(lost[start : start + MOST_AT_ONCE])):
                    return

    async def _retire(self, batch: dict[RowKey, EpisodeId]) -> bool:
        try:
            operation = await self._crew.coordination.retire(tuple(batch.values()))
        except CheckpointError as error:
            if self._told != (trouble := str(error)):
                self._told = trouble
                self._crew.listener(Note(f"{len(batch)} rows are not retired yet: {trouble}", "warning"))
            return False
        self._told = None
        self._crew.air.ledger.retired(batch)
        self._crew.air.retired()
        self._crew.listener(RetiredRows(operation, len(batch)))
        return True


async def _checkpoint(crew: Crew, inbox: Inbox, why: Why) -> Taken | None:
    """What came of it; None when a stop or the end came first, which has its own."""
    if inbox.stop_by is not None or inbox.is_left:
        return None
    if crew.air.ledger.flying or (crew.air.ledger.restored and why != "timer"):
        taken = await _take(crew, inbox, UnderWay(by=trio.current_time() + crew.timeout_s, stop=False), why)
    else:
        taken = nothing_tried(_NOTHING)
        if why != "timer":
            crew.listener(Note(in_words(taken)))
            await record(crew, taken.outcome)
    inbox.taken(taken, trio.current_time())
    return taken


async def _stop(crew: Crew, inbox: Inbox, by: float, first: Taken | None = None) -> Ended:
    """Take the stop's checkpoint; again, when it fails, ever more rarely while a fifth of the grace is left.

    A failure is told once: a full disk is as full at the next try.
    """
    crew.air.gate.close()  # nothing is sent any more, also where there is nothing to take
    taken, pause_s = first, FIRST_TRY_PAUSE_S
    while crew.air.ledger.sends and crew.air.ledger.scope() and not isinstance(taken, Published):
        if taken is not None:
            left_s = by - trio.current_time() - pause_s
            if left_s < ANOTHER_TRY * inbox.grace_s or await inbox.left_within(pause_s):
                break
            pause_s *= 2
        if inbox.is_left:
            break
        under_way = UnderWay(by=min(by, trio.current_time() + crew.timeout_s), stop=True)
        taken = await _take(crew, inbox, under_way, "stop", failed_before=taken is not None)
    if taken is None:
        taken = nothing_tried(_NOTHING if crew.air.ledger.sends else _NOT_BEGUN)
        await record(crew, taken.outcome)
    elif isinstance(taken, NotPublished):
        crew.listener(Note(crew.store.standing(), "warning"))
    inbox.taken(taken, trio.current_time())
    return Ended(RowsEnd.INTERRUPTED if inbox.is_left else RowsEnd.PREEMPTED, taken)


async def _take(
    crew: Crew, inbox: Inbox, under_way: UnderWay, why: str, *, failed_before: bool = False
) -> Taken:
    with inbox.doing(under_way):
        taken = await take_checkpoint(crew, under_way, why)
    if isinstance(taken, Published) or not failed_before:
        crew.listener(Note(in_words(taken), "info" if isinstance(taken, Published) else "warning"))
    return taken
