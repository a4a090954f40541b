"""The signals of a run, as orders."""

import signal
from types import FrameType
from typing import Final

import trio

from triocollect import dispositions
from triocollect.checkpoint.inbox import Inbox

_STOPS: Final = (signal.SIGTERM, signal.SIGHUP)


async def listen_for_signals(
    inbox: Inbox, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """A service: TERM and HUP stop, USR1 takes a checkpoint, INT stops and, sent again, leaves.

    Main thread only. A HUP that is ignored stays so: its user wants the run to outlive the terminal. None of
    them kills while the handlers change: trio delivers what came last to whatever was there before.
    Afterwards TERM, HUP and INT do what they did before, so that another run in this process can be told to
    stop too, and whoever blocked them finds them blocked; the program sees to its own exit code. USR1 stays
    ignored.
    """
    heard = [number for number in _STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, dispositions.nothing) for number in heard}
    usr1 = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    interrupt = signal.signal(signal.SIGINT, _every_one(inbox))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        with trio.open_signal_receiver(*heard, signal.SIGUSR1) as arrivals:
            dispositions.let_through()
            task_status.started()
            async for number in arrivals:
                hear(inbox, number)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, interrupt)
        for number, handler in before.items():
            signal.signal(number, handler)
        if usr1 is not signal.SIG_DFL:
            signal.signal(signal.SIGUSR1, usr1)


def _every_one(inbox: Inbox) -> "signal._HANDLER":
    """A handler for which two Ctrl-Cs are two: a receiver gives those that wait in it as one.

    What the kernel or the interpreter has not handed over yet is one, however often it came: two within one
    call into C, such as the decoding of one large reply, cannot be told apart.
    """
    token = trio.lowlevel.current_trio_token()

    def handler(_number: int, _frame: FrameType | None) -> None:
        token.run_sync_soon(hear, inbox, signal.SIGINT)

    return handler


def hear(inbox: Inbox, number: int) -> None:
    """What a signal means."""
    if number in _STOPS:
        inbox.stop(trio.current_time())
    elif number == signal.SIGINT:
        inbox.interrupt(trio.current_time())
    elif number == signal.SIGUSR1:
        inbox.checkpoint("signal")
