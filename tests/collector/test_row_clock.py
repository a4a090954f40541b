"""A row's time does not run while nothing can happen to it."""

import pytest
import trio
from trio.testing import MockClock

from triocollect.collector.row_clock import TICK_S, RowClock


@pytest.mark.usefixtures("autojump_clock")
async def test_a_row_is_left_when_its_time_is_over():
    clock = RowClock(60.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.run)
        with clock.limit() as scope:
            await trio.sleep_forever()
        assert scope.cancelled_caught
        assert 60 <= trio.current_time() <= 60 + 2 * TICK_S
        with clock.limit() as scope:
            await trio.sleep(59)
        assert not scope.cancelled_caught
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("autojump_clock")
async def test_no_time_passes_while_it_stands():
    standing = True
    clock = RowClock(10.0, stands=lambda: standing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.run)
        with clock.limit() as scope:
            await trio.sleep(1000)
            standing = False
            await trio.sleep_forever()
        assert scope.cancelled_caught
        assert 1010 - TICK_S <= trio.current_time() <= 1010 + 3 * TICK_S
        nursery.cancel_scope.cancel()


def test_a_reply_that_came_while_the_process_slept_is_heard():
    mock, heard = MockClock(), []

    async def main():
        clock, arrived = RowClock(3.0), trio.Event()

        async def row():
            with clock.limit() as scope:
                await arrived.wait()
                await trio.lowlevel.checkpoint()  # a reply takes more than one step to read
                await trio.lowlevel.checkpoint()
                heard.append("reply")
            heard.append(scope.cancelled_caught)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(clock.run)
            nursery.start_soon(row)
            await trio.testing.wait_all_tasks_blocked()
            arrived.set()
            mock.jump(5.0)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=mock)
    assert heard == ["reply", False]
