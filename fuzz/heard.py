"""Signals as in a terminal, whoever starts the tests; TERM and HUP as a Ctrl-C, for who keeps an account.

What a shell starts in the background has INT ignored, and by nohup HUP; so has all that it starts.
"""

import signal
from types import FrameType
from typing import Final

_OTHERS: Final = (signal.SIGTERM, signal.SIGHUP)


def hear() -> None:
    """Have what is ignored end this process again, and what it starts."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


def take_others_as_ctrl_c() -> None:
    """Have the first TERM or HUP do what a Ctrl-C does: what was counted is kept, and nobody works on alone.

    A HUP that is ignored, as nohup has it, ends nothing, and is heard by what this process starts; so this
    comes before `hear`.
    """
    for number in _OTHERS:
        ignored = signal.getsignal(number) is signal.SIG_IGN and number == signal.SIGHUP
        signal.signal(number, _nothing if ignored else _interrupt)


def ended_by() -> int | None:
    """The exit code of an end by one of them; None where none came."""
    came = [number for number in _OTHERS if signal.getsignal(number) is _again]
    return 128 + came[0] if came else None


def _interrupt(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, _again)
    signal.raise_signal(signal.SIGINT)  # `os.kill` would need a process id, and those of lives are made up


def _again(_number: int, _frame: FrameType | None) -> None:
    """`timeout` tells a process, and then its whole group: the second is no wish to lose the account."""


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """In place of SIG_IGN, which what is started would inherit."""
