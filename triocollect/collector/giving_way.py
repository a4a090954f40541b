"""What a run is in the middle of when it is told to stop, before its rows fly and after."""

import contextlib
from typing import Final

from triocollect.checkpoint.inbox import Inbox
from triocollect.errors import GivenUpError, StoppedError

_NOTHING_SENT: Final = "before anything was sent; the same command goes on from where things stand"


def giving_way(inbox: Inbox | None) -> contextlib.AbstractContextManager[None]:
    """See the inbox; None: without a checkpoint directory nobody gives orders."""
    return contextlib.nullcontext() if inbox is None else inbox.giving_way()


def go_on_unless_stopped(inbox: Inbox | None) -> None:
    """Nothing is changed yet. Raises StoppedError."""
    if inbox is not None and inbox.stop_by is not None:
        kind, told = (GivenUpError, "interrupted") if inbox.is_left else (StoppedError, "told to stop")
        raise kind(f"{told} {_NOTHING_SENT}")
