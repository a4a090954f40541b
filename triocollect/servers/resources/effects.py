"""The effects file of one resources server: every seed and every change, one JSON line each.

It is the server's own account, apart from what any reply says: by it, and by nothing else, is judged whether
an interrupted run did the same as an uninterrupted one. A line is written before the reply is sent.
"""

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from triocollect.servers.journal import journal

S = TypeVar("S")


class Effect(msgspec.Struct, Generic[S], frozen=True):
    """One line. `effect` is "seed" or the name of the tool; `state` is the state after it."""

    rollout_id: str
    attempt: int
    effect: str
    arguments: Raw
    state: S


Record: TypeAlias = Callable[[Effect[S]], None]


def recorder(path: str | None) -> Record[S]:
    """What writes effects to this file, to nowhere for None. Raises DeploymentError where it cannot."""
    return journal(path, "effects file")
