"""Signals as in a terminal, whoever starts the tests.

What a shell starts in the background has INT ignored, and by nohup HUP; so has all that it starts.
"""

import signal


def hear() -> None:
    """Have what is ignored end this process again, and what it starts."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)
