"""One collector for one output: the lock is on the output file itself."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from triocollect.locking import Lockable, Locked

LockedOutput: TypeAlias = Locked


async def lock_output(path: Path, *, wait_s: float | None, warn: Callable[[str], None]) -> LockedOutput:
    """Open and lock the output, see `Lockable.lock`."""
    return await _lockable(path).lock(wait_s=wait_s, warn=warn)


def look_at_output(path: Path) -> None:
    """Change nothing, and raise what `lock_output` would where it cannot be written."""
    _lockable(path).look()


def _lockable(path: Path) -> Lockable:
    return Lockable(path=path, option="--output", named=path, in_use=f"{path} is being written by")
