"""The signals of a run, as orders."""

import signal
from typing import Final

import trio

from triocollect.checkpoint.inbox import Inbox

_NUMBERS: Final = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


async def listen_for_signals(
    inbox: Inbox, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """A service: TERM stops, USR1 takes a checkpoint, INT stops and, sent again, leaves. Main thread only.

    All are ignored underneath, so that one which comes while the handlers change is harmless: trio delivers
    it again to whatever was there before. USR1 stays ignored, and so does the TERM of a run that was told to
    stop: nothing may take its exit code away.
    """
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _NUMBERS}
    try:
        with trio.open_signal_receiver(*_NUMBERS) as arrivals:
            task_status.started()
            async for number in arrivals:
                hear(inbox, number)
    finally:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        if inbox.stop_by is None:
            signal.signal(signal.SIGTERM, before[signal.SIGTERM])
        if before[signal.SIGUSR1] is not signal.SIG_DFL:
            signal.signal(signal.SIGUSR1, before[signal.SIGUSR1])


def hear(inbox: Inbox, number: int) -> None:
    """What a signal means."""
    if number == signal.SIGTERM:
        inbox.stop(trio.current_time())
    elif number == signal.SIGINT:
        inbox.interrupt(trio.current_time())
    elif number == signal.SIGUSR1:
        inbox.checkpoint("signal")
