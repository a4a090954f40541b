"""Signals as in a terminal, whoever starts the tests; and a TERM as a Ctrl-C, for who keeps an account.

What a shell starts in the background has INT ignored, and by nohup HUP; so has all that it starts.
"""

import signal
from types import FrameType
from typing import Final

TERMINATED: Final = 128 + signal.SIGTERM


def hear() -> None:
    """Have what is ignored end this process again, and what it starts."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


def take_term_as_ctrl_c() -> None:
    """Have the first TERM do what a Ctrl-C does: what was counted is kept, and nobody works on alone."""
    signal.signal(signal.SIGTERM, _interrupt)


def terminated() -> bool:
    """Whether one came."""
    return signal.getsignal(signal.SIGTERM) is _again


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, _again)
    signal.raise_signal(signal.SIGINT)  # `os.kill` would need a process id, and those of lives are made up


def _again(_number: int, _frame: FrameType | None) -> None:
    """`timeout` tells a process, and then its whole group: the second is no wish to lose the account."""
