"""The signals of a run, as orders."""

import signal

import trio

from triocollect.checkpoint.inbox import Inbox


async def listen_for_signals(
    inbox: Inbox, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """A service: TERM stops, USR1 takes a checkpoint, INT stops and, sent again, leaves. Main thread only.

    What was there before is put back at the end, but a USR1 that would have killed is ignored from now on:
    one that came at the last moment is delivered again afterwards.
    """
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGUSR1, signal.SIGINT) as arrivals:
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
