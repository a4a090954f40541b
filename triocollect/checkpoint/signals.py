"""The signals of a run, as orders."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from triocollect.checkpoint.inbox import Inbox


async def listen_for_signals(
    inbox: Inbox, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """A service: TERM stops, USR1 takes a checkpoint, INT stops and, sent again, leaves. Main thread only.

    A USR1 kills nobody, before, while and after the handlers change: it is ignored underneath.
    """
    with (
        _usr1_ignored(),
        trio.open_signal_receiver(signal.SIGTERM, signal.SIGUSR1, signal.SIGINT) as arrivals,
    ):
        task_status.started()
        async for number in arrivals:
            hear(inbox, number)


def hear(inbox: Inbox, number: int) -> None:
    """What a signal means."""
    if number == signal.SIGTERM:
        inbox.stop(trio.current_time())
    elif number == signal.SIGINT:
        inbox.interrupt(trio.current_time())
    elif number == signal.SIGUSR1:
        inbox.checkpoint("signal")


@contextmanager
def _usr1_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
