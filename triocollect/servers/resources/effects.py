"""The effects file of one resources server: every seed and every change, one JSON line each.

It is the server's own account, apart from what any reply says: by it, and by nothing else, is judged whether
an interrupted run did the same as an uninterrupted one. Lines reach the operating system before the reply is
sent; they are not synced, since the server's state is not on disk either.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from triocollect.errors import DeploymentError

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
    if path is None:
        return lambda _effect: None
    file = Path(path)
    try:
        file.touch()
    except OSError as problem:
        raise DeploymentError(f"effects file {path}: {problem.strerror}") from problem

    def append(effect: Effect[S]) -> None:
        # Opened for each line: nothing is left to close, and a file that was moved away is begun anew.
        with file.open("ab") as lines:
            lines.write(msgspec.json.encode(effect) + b"\n")

    return append
