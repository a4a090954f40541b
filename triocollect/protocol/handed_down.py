"""What whoever starts a server process agrees on with it: a listening socket is handed down to it. Pure."""

from typing import Final

BACKLOG: Final = (
    4096  # connections that may wait; set when the socket is made, and again by who takes it over
)
MODULE: Final = "triocollect.servers"  # `python -m` this
END_GRACE_S: Final = 0.5  # from the end of the lifeline to the kill; who can has ended by then
KILL_GRACE_S: Final = 1.0  # from the kill to its effect

# The shell is there for a child's first moments: signals that are ignored when Python starts stay ignored.
IGNORING_SIGNALS: Final = ("/bin/sh", "-c", "trap '' HUP INT TERM USR1; exec \"$@\"", "sh")
NOTE: Final = "note: "  # in a line on a server's standard error, which its owner passes on to people
TOLD_AFTER_S: Final = 1.0  # of waiting for a collector: who leaves at once says nothing


def waiting(grace_s: float) -> str:
    """What a server says that is told to end while a collector is at work."""
    return f"waiting up to {grace_s:g} s for the collector's stop; TERM again ends at once"


def waited(grace_s: float) -> str:
    """What it says when that was in vain."""
    return f"the collector has not stopped within {grace_s:g} s; ending all the same"


def how_it_ended(returncode: int | None) -> str:
    """What a process died of, in words."""
    code = returncode or 0
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
