"""One collector for one output: flock on the output file itself, taken before anything is changed."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

from triocollect.durable import open_append
from triocollect.errors import LockedError, StorageError, UsageError

_POLL_S: Final = 0.2
_WRONG_PLACE: Final = {
    errno.EISDIR,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
_HELD: Final = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_NOT_SUPPORTED: Final = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}


@frozen
class LockedOutput:
    """The output, open for appending and ours. `created`: it was not there before."""

    path: Path
    descriptor: int
    created: bool

    def back_out(self) -> None:
        """Leave the folder as it was found: an output that we made and never used goes again."""
        if self.created and os.fstat(self.descriptor).st_size == 0:
            self.path.unlink(missing_ok=True)


async def lock_output(path: Path, *, wait_s: float | None, warn: Callable[[str], None]) -> LockedOutput:
    """Open and lock; wait up to `wait_s` seconds for whoever holds it (None: not at all).

    The lock goes with the last descriptor, so it ends with the process however that ends. Where the file
    system has no locks (Lustre without `-o flock`), says so once and goes on: refusing would be for ever.
    Raises LockedError naming the holder, StorageError where the file cannot be opened.
    """
    with trio.move_on_after(wait_s or 0) as patience:
        while True:
            locked = _try_lock(path, warn)
            if locked is not None:
                return locked
            if not wait_s:
                break
            await trio.sleep(_POLL_S)
    waited = f" (waited {wait_s:g} s)" if wait_s and patience.cancelled_caught else ""
    raise LockedError(
        f"{path} is being written by {_holder(path)}{waited}; wait for it or stop it. "
        "--wait-for-lock SECONDS waits"
    )


def _try_lock(path: Path, warn: Callable[[str], None]) -> LockedOutput | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        created = not path.exists()
        descriptor = open_append(path)
    except OSError as error:
        if error.errno in _WRONG_PLACE:
            raise UsageError(
                f"--output: cannot write to {path}: {error.strerror}; name another file"
            ) from error
        raise StorageError(f"cannot open {path}: {error.strerror}", path=str(path)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            warn(
                f"{path}: this file system has no locks ({error.strerror}); make sure only one collector runs"
            )
            return LockedOutput(path, descriptor, created)
        os.close(descriptor)
        return None
    if not _is_still(path, descriptor):  # whoever held it backed out and took the file away
        os.close(descriptor)
        return _try_lock(path, warn)
    return LockedOutput(path, descriptor, created)


def _is_still(path: Path, descriptor: int) -> bool:
    ours = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _holder(path: Path) -> str:
    """The kernel's word on who holds the lock; another host's is not in it."""
    try:
        inode = path.stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "FLOCK" in fields and fields[-3].endswith(f":{inode}"):
                return f"another collector, process {fields[4]} on {os.uname().nodename}"
    except (OSError, IndexError):
        pass
    return "another collector"
