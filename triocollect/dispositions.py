"""What the program does about signals while nobody listens to them: before a run does, and after.

`__main__` blocks TERM, INT and HUP on its first lines, so that the kernel keeps what comes; a flag set by a
handler would do as well, but an exception raised by one gets lost in the middle of an import. Then either

- `give_back`: the settings name no checkpoint directory, and whatever was kept does now what it always does;
- or the run listens and calls `let_through`, and whatever was kept is its first order.

Two of a kind that come while they are blocked are one, as with every signal that is kept by the kernel.
"""

import signal
from types import FrameType
from typing import Final

KEPT: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def nothing(_number: int, _frame: FrameType | None) -> None:
    """In place of death. Not SIG_IGN, which would throw away what the kernel keeps."""


def stay_alive() -> None:
    """Have TERM and HUP kill nobody from here on, unless they are ignored, as nohup has it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, nothing)


def give_back() -> None:
    """TERM and HUP kill again, INT is a KeyboardInterrupt: also those that came before. A host's stay."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is nothing:
            signal.signal(number, signal.SIG_DFL)
    let_through()


def let_through() -> None:
    """What was kept is delivered."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, KEPT)


def hear_no_more() -> None:
    """The exit code is decided. The interpreter's end puts handlers back, but never what is ignored."""
    for number in (*KEPT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
