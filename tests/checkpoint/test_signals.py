"""What the signals of a run do."""

import signal

import pytest
import trio
import trio.testing

from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import Checkpoint, Leave, Stop
from triocollect.checkpoint.signals import listen_for_signals


@pytest.fixture(autouse=True)
def _handlers_as_they_were():
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_handlers_are_put_back_but_usr1_kills_nobody_any_more():
    before = [signal.SIG_IGN, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)]
    async with trio.open_nursery() as nursery:
        await nursery.start(listen_for_signals, Inbox(60, now=0))
        nursery.cancel_scope.cancel()
    assert [signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)] == before


async def test_signals_that_somebody_blocked_are_blocked_again_afterwards():
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(listen_for_signals, Inbox(60, now=0))
            assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
            nursery.cancel_scope.cancel()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked | {signal.SIGHUP}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


async def test_usr1_term_and_int_are_heard_and_a_stop_is_a_stop_once():
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


async def test_after_a_run_that_was_stopped_another_one_in_the_process_can_be_stopped():
    before = signal.getsignal(signal.SIGTERM)
    for _ in range(2):
        inbox = Inbox(60, now=0)
        async with trio.open_nursery() as nursery:
            await nursery.start(listen_for_signals, inbox)
            signal.raise_signal(signal.SIGTERM)
            with trio.fail_after(10):
                assert isinstance(await inbox.next(), Stop)
            nursery.cancel_scope.cancel()
        assert signal.getsignal(signal.SIGTERM) == before


async def test_a_usr1_that_nobody_takes_any_more_kills_nobody():
    async with trio.open_nursery() as nursery:
        await nursery.start(listen_for_signals, Inbox(60, now=0))
        nursery.cancel_scope.cancel()
        signal.raise_signal(signal.SIGUSR1)
