"""From an exception to one message and one exit code."""

import os
import signal
import traceback

from triocollect.cli import say
from triocollect.errors import ConfigError, Exit, TriocollectError, WouldOverwriteError, reason_of

DEBUG = "TRIOCOLLECT_DEBUG"


def tell(fault: BaseException) -> Exit:
    """Say what happened, once, on standard error; returns the exit code."""
    if os.environ.get(DEBUG):
        say.err("".join(traceback.format_exception(fault)).rstrip())
    fault = reason_of(fault)
    if isinstance(fault, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a third Ctrl-C must not bring a traceback after all
        say.err("interrupted: what is written stays; run the same command again to continue")
        return Exit.INTERRUPTED
    if isinstance(fault, ConfigError):
        say.err("\n".join(f"triocollect: {problem}" for problem in fault.problems))
        return fault.exit_code
    if isinstance(fault, TriocollectError):
        told = fault.at_command_line if isinstance(fault, WouldOverwriteError) else fault
        say.err(f"triocollect: {told}")
        return fault.exit_code
    say.err(f"triocollect: internal error: {type(fault).__name__}: {fault} (set {DEBUG}=1 for the traceback)")
    return Exit.INTERNAL
