"""What the signals of a run do."""

import signal

import pytest
import trio
import trio.testing

from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import Checkpoint, Leave, Stop
from triocollect.checkpoint.signals import listen_for_signals


@pytest.fixture(autouse=True)
def _usr1_as_it_was():
    before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGUSR1, before)


async def test_usr1_term_and_int_are_heard_and_handlers_are_put_back():
    numbers = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
    before = [signal.SIG_IGN, *map(signal.getsignal, numbers[1:])]
    inbox = Inbox(60, now=0)
    async with trio.open_nursery() as nursery:
        await nursery.start(listen_for_signals, inbox)
        signal.raise_signal(signal.SIGUSR1)
        assert await inbox.next() == Checkpoint("signal")
        signal.raise_signal(signal.SIGINT)
        assert isinstance(await inbox.next(), Stop)
        signal.raise_signal(signal.SIGTERM)
        await trio.testing.wait_all_tasks_blocked()
        assert inbox.take() is None
        signal.raise_signal(signal.SIGINT)
        assert await inbox.next() == Leave()
        nursery.cancel_scope.cancel()
    assert [signal.getsignal(number) for number in numbers] == before


async def test_a_usr1_that_nobody_takes_any_more_kills_nobody():
    async with trio.open_nursery() as nursery:
        await nursery.start(listen_for_signals, Inbox(60, now=0))
        nursery.cancel_scope.cancel()
        signal.raise_signal(signal.SIGUSR1)
