"""The one task that commands the participants: orders, one at a time.

So a retire never falls into a checkpoint, and nothing else does either. A stop overtakes everything but a
checkpoint under way, which it turns into its own.
"""

import math
from typing import Final

import trio

from triocollect.checkpoint.coordination import MOST_AT_ONCE
from triocollect.checkpoint.crew import Crew, UnderWay
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import (
    Checkpoint,
    Ended,
    Ending,
    Leave,
    Order,
    Published,
    Retire,
    RowsDone,
    Stop,
    Taken,
    Why,
    nothing_tried,
)
from triocollect.checkpoint.taking import record, take_checkpoint
from triocollect.errors import CheckpointError
from triocollect.events import Note

FIRST_PAUSE_S: Final = 1.0  # before what a participant did not answer is repeated; then twice as long
LONGEST_PAUSE_S: Final = 30.0
ANOTHER_TRY: Final = 0.2  # of the grace has to be left for one
BETWEEN_TRIES_S: Final = 1.0
_NOTHING: Final = "no row is in flight"
_NOT_BEGUN: Final = "no row was sent yet, so the checkpoint before still covers everything"


async def command(crew: Crew, inbox: Inbox) -> Ended:
    """Take orders until the run has to end or its rows are done.

    Raises what ends the run; whatever it was, rows are cancelled where it does not return DONE.
    """
    try:
        ended = await _obey(crew, inbox)
    except BaseException:
        inbox.close("the run has ended")
        raise
    inbox.close("the run has ended")
    if ended.ending is not Ending.DONE:
        crew.air.cancel_rows()
    return ended


async def _obey(crew: Crew, inbox: Inbox) -> Ended:
    while True:
        match await _next(crew, inbox):
            case Leave():
                return Ended(Ending.INTERRUPTED)
            case Stop(by):
                return await _stop(crew, inbox, by)
            case Checkpoint(why):
                taken = await _checkpoint(crew, inbox, why)
                if taken is not None and taken.stopped:
                    assert inbox.stop_by is not None
                    return await _stop(crew, inbox, inbox.stop_by, taken)
            case Retire():
                await _catch_up(crew, inbox)
            case RowsDone():
                await _catch_up(crew, inbox)
                return Ended(Ending.DONE)


async def _next(crew: Crew, inbox: Inbox) -> Order:
    """The next order; while there is none, what was not answered is repeated."""
    pause_s = FIRST_PAUSE_S
    while True:
        behind = crew.coordination.owes or bool(crew.air.ledger.lost)
        with trio.move_on_after(pause_s if behind else math.inf):
            return await inbox.next()
        await _catch_up(crew, inbox)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


async def _catch_up(crew: Crew, inbox: Inbox) -> None:
    """Resume whom it is owed, and retire the rows that brought no reply; a stop has no time for it.

    What cannot be done now stays to be done. The rows are those of the beginning: later ones have their turn.
    """
    with inbox.giving_way():
        await crew.coordination.settle_owed()
        if crew.coordination.owes:
            return  # closed participants retire nothing
        lost = list(crew.air.ledger.lost.items())
        for start in range(0, len(lost), MOST_AT_ONCE):
            batch = dict(lost[start : start + MOST_AT_ONCE])
            try:
                await crew.coordination.retire(tuple(batch.values()))
            except CheckpointError as error:
                crew.listener(Note(f"{len(batch)} rows are not retired yet: {error}", "warning"))
                return
            crew.air.ledger.retired(batch)
            crew.air.retired()


async def _checkpoint(crew: Crew, inbox: Inbox, why: Why) -> Taken | None:
    """What came of it; None when a stop or the end came first, which has its own."""
    await _catch_up(crew, inbox)
    if inbox.stop_by is not None or inbox.is_left:
        return None
    if crew.air.ledger.flying or (crew.air.ledger.restored and why != "timer"):
        taken = await _take(crew, inbox, UnderWay(by=trio.current_time() + crew.timeout_s, stop=False), why)
    else:
        taken = nothing_tried(_NOTHING)
        if why != "timer":
            crew.listener(Note(f"no checkpoint: {_NOTHING}"))
            await record(crew, taken.outcome)
    inbox.taken(taken, trio.current_time())
    return taken


async def _stop(crew: Crew, inbox: Inbox, by: float, first: Taken | None = None) -> Ended:
    """Take the stop's checkpoint; again, when it fails, while a fifth of the grace is left."""
    taken = first
    while crew.air.ledger.sends and crew.air.ledger.scope() and not isinstance(taken, Published):
        left_s = by - trio.current_time()
        if taken is not None and left_s < ANOTHER_TRY * inbox.grace_s:
            break
        if await inbox.left_within(0 if taken is None else BETWEEN_TRIES_S):
            break
        deadline = min(by, trio.current_time() + crew.timeout_s)
        taken = await _take(crew, inbox, UnderWay(by=deadline, stop=True), "stop")
    if taken is None:
        taken = nothing_tried(_NOTHING if crew.air.ledger.sends else _NOT_BEGUN)
    inbox.taken(taken, trio.current_time())
    return Ended(Ending.INTERRUPTED if inbox.is_left else Ending.PREEMPTED, taken)


async def _take(crew: Crew, inbox: Inbox, under_way: UnderWay, why: str) -> Taken:
    with inbox.doing(under_way):
        return await take_checkpoint(crew, under_way, why)
