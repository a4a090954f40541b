"""An answer that is on its way when its server closes is waited for: its row is not to be played again."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from fuzz.invariants import holds
from tests.checkpoint.world import world
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import Published
from triocollect.collector.air import Air, AirParts
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.protocol.ids import RowKey

FIRST, SECOND = RowKey(1, 0), RowKey(2, 0)


async def left_out(root, seconds, stop):
    """Whom a checkpoint leaves to be played again; answers of two rows come late, and nobody holds them."""
    async with world(root) as here:
        here.fly(0)
        for key in (FIRST, SECOND):
            here.air.ledger.start(key, str(key))

        async def arrive():
            for key in (FIRST, SECOND):
                await trio.sleep(seconds)
                here.air.reply(key)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(arrive)
            taken = await here.take(stop=stop)
            assert isinstance(taken, Published)
            nursery.cancel_scope.cancel()  # as what a stop does not wait for
    return [one.capture_key for one in taken.restarted]


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 3.0])
def test_a_row_whose_answer_is_on_the_wire_is_not_left_to_be_played_again(tmp_path, seconds, stop):
    left = trio.run(left_out, tmp_path, seconds, stop, clock=MockClock(autojump_threshold=0))
    holds(1, not left, f"{left} were answered, and the checkpoint did not wait for the answers")


async def waits_for():
    """For how many of two rows that fly a collector waits, and whether it is over with the last."""
    inbox = Inbox(1.0, now=trio.current_time())
    ledger = Ledger()
    air = Air(AirParts(gate=Gate(2), ledger=ledger, sinks=None, log=None, inbox=inbox, blocking=None))
    waiting = [ledger.start(key, str(key)) for key in (FIRST, SECOND)]
    landed, waited = 0, trio.Event()

    async def wait():
        await air.ended(waiting)
        waited.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for key in (FIRST, SECOND):
            await wait_all_tasks_blocked()
            if waited.is_set():
                break
            landed += 1
            ledger.replied(key)
            air.landed(key)
        await wait_all_tasks_blocked()
        is_over = waited.is_set()
        nursery.cancel_scope.cancel()
    return landed, is_over


def test_a_collector_waits_for_each_answer_that_it_needs():
    landed, is_over = trio.run(waits_for)
    holds(1, landed == 2, f"{landed} of two answers were waited for, and both were on their way")
    holds(1, is_over, "both answers are here, and nobody who waits for them is told")
