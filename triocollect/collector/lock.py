"""One collector for one output: the lock is on the output file itself."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from triocollect.locking import Lockable, Locked

LockedOutput: TypeAlias = Locked


async def lock_output(path: Path, *, wait_s: float | None, warn: Callable[[str], None]) -> LockedOutput:
    """Open and lock the output, see `Lockable.lock`."""
    return await lockable(path).lock(wait_s=wait_s, warn=warn)


def lockable(path: Path) -> Lockable:
    """What is locked of an output, which need not be there."""
    return Lockable(path=path, option="--output", named=path, in_use=f"{path} is being written by")
