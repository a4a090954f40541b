"""Rows are let in, in order, so many at a time; a closed gate lets none start."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from triocollect.flight.gate import Gate
from triocollect.protocol.ids import RowKey

ROWS = [RowKey(task, 0) for task in range(6)]


@pytest.mark.usefixtures("autojump_clock")
async def test_no_more_rows_fly_than_were_asked_for():
    gate, flying, most = Gate(2), 0, 0

    async def fly(row):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await trio.sleep(1)
        flying -= 1
        gate.leave(row)

    async with trio.open_nursery() as nursery:
        for row in ROWS:
            await gate.enter(row)
            nursery.start_soon(fly, row)
    assert most == 2
    assert trio.current_time() == 3


async def test_a_row_that_got_its_place_in_the_tick_of_the_close_does_not_start():
    gate, started = Gate(1), []

    async def fly(row):
        await gate.enter(row)
        await gate.opened()
        started.append(row)

    await gate.enter(ROWS[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fly, ROWS[1])
        await wait_all_tasks_blocked()
        gate.leave(ROWS[0])
        gate.close()
        await wait_all_tasks_blocked()
        assert started == []
        gate.open()
    assert started == [ROWS[1]]


async def test_an_open_gate_asks_for_no_patience():
    gate = Gate(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await gate.opened()  # no checkpoint: the send that follows is one step with the question
    assert not scope.cancelled_caught


async def test_closing_twice_and_opening_once_lets_everybody_on():
    gate = Gate(1)
    gate.close()
    gate.close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.opened)
        await wait_all_tasks_blocked()
        gate.open()
