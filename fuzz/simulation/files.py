"""Every change of a file or a folder, before it is made: counted, failed, or what a process died of.

What a buffered file hands over when it is flushed is not seen; a sync of it follows at once everywhere.
"""

import contextlib
import contextvars
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

OWNER: Final = contextvars.ContextVar["Owner"]("owner")
_CHANGES: Final = ("write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate")
_NEEDS_ROOM: Final = {"write", "fsync", "mkdir", "open"}
_CREATES: Final = os.O_CREAT | os.O_TRUNC


class Owner(Protocol):
    """A process: whoever is dead changes nothing any more."""

    name: str
    dead: bool


class Troubled(Protocol):
    """Who decides what becomes of a change."""

    def changes(self, owner: Owner, operation: str, what: object) -> None:
        """It is about to be made. Raises OSError."""


@contextlib.contextmanager
def changing(troubled: Troubled, synced: Callable[[int], None]) -> Iterator[None]:
    """Changes by processes with an owner go by `troubled` first; syncs are no syncs, and `synced` hears."""
    changes = {name: _asked_first(troubled, name, getattr(os, name)) for name in _CHANGES}
    real = {name: getattr(os, name) for name in (*_CHANGES, "open")}
    ours = {
        **changes,
        "fsync": _asked_first(troubled, "fsync", synced),
        "open": _asked_where_it_changes(troubled, os.open),
    }
    for name, function in ours.items():
        setattr(os, name, function)
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def _ask(troubled: Troubled, operation: str, what: object) -> None:
    if (owner := OWNER.get(None)) is None:
        return
    if not owner.dead:
        troubled.changes(owner, operation, what)
    if owner.dead:  # since long, or since this very moment
        raise OSError(errno.EIO, f"{owner.name} is dead")


def _asked_first(troubled: Troubled, operation: str, real: Callable) -> Callable:
    def change(what, *args, **more):
        _ask(troubled, operation, what)
        return real(what, *args, **more)

    return change


def _asked_where_it_changes(troubled: Troubled, real: Callable) -> Callable:
    def opened(path, flags, *args, **more):
        if flags & _CREATES:
            _ask(troubled, "open", path)
        return real(path, flags, *args, **more)

    return opened


def fails_with(operation: str, trouble: str) -> OSError | None:
    """The error of a change, where this trouble is one for it."""
    if trouble == "ENOSPC" and operation not in _NEEDS_ROOM:
        return None
    number = getattr(errno, trouble)
    return OSError(number, os.strerror(number))


def name_of(what: object) -> str:
    """The file or folder of a path or a descriptor, without numbers that differ from run to run."""
    path = Path(f"/proc/self/fd/{what}").readlink() if isinstance(what, int) else Path(str(what))
    return re.sub(r"[0-9a-f]{16,}", "#", re.sub(r"\d{6}", "N", path.name))
