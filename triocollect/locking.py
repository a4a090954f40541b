"""One process at a time: flock on a file, taken before anything is changed."""

import contextlib
import errno
import fcntl
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import frozen

from triocollect.durable import let_go, open_append, other_than_a_file
from triocollect.errors import LockedError, StorageError, UsageError

_POLL_S: Final = 0.2
_WRONG_PLACE: Final = {
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENOENT,
    errno.EEXIST,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
_LOCKS: Final = Path("/proc/locks")
_NOT_SUPPORTED: Final = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}


@frozen
class Locked:
    """A file, open for appending and ours. `created`: it was not there before."""

    path: Path
    descriptor: int
    created: bool
    made: tuple[Path, ...] = ()  # folders that were not there, from the file upwards

    def back_out(self) -> None:
        """Leave all as it was found: a file that we made and never used goes again, and its folders."""
        with contextlib.suppress(OSError):
            if self.created and os.fstat(self.descriptor).st_size == 0:
                self.path.unlink()
                for folder in self.made:
                    folder.rmdir()  # the first that somebody uses ends this

    def give_back(self) -> None:
        """Back out, and let the next one in."""
        self.back_out()
        let_go(self.descriptor)


@frozen(kw_only=True)
class Lockable:
    """A file to lock, and how to speak of it.

    `option` and `named` are what the user said, `noun` what to name instead where that cannot be; `in_use`
    goes on with who holds it: `holder`, unless the kernel knows better. `waiting` says how to wait.
    """

    path: Path
    option: str
    named: Path
    noun: str = "file"
    in_use: str
    holder: Callable[[], str] = lambda: "another collector"
    waiting: str = " (--wait-for-lock TIME)"  # how, for who was refused
    mode: int = 0o666

    async def lock(self, *, wait_s: float | None, warn: Callable[[str], None]) -> Locked:
        """Open and lock; wait up to `wait_s` seconds for whoever holds it, and say so (None: not at all).

        The lock goes with the last descriptor, so it ends with the process however that ends. Where the file
        system has no locks (Lustre without `-o flock`), says so once and goes on: refusing would be for ever.
        Raises LockedError naming the holder, UsageError or StorageError where the file cannot be opened.
        """
        locked = self._try(warn)
        if locked is None and wait_s:
            import trio  # noqa: PLC0415  # slow to load, and who only looks who holds a lock needs none

            warn(f"{self.in_use} {self._whoever()}; waiting up to {wait_s:g} s for its end")
            with trio.move_on_after(wait_s):
                while locked is None:
                    await trio.sleep(_POLL_S)
                    locked = self._try(warn)
        if locked is not None:
            return locked
        waited = f" (waited {wait_s:g} s)" if wait_s else ""
        raise LockedError(
            f"{self.in_use} {self._whoever()}{waited}; stop it, or wait for its end{self.waiting}"
        )

    def look(self) -> None:
        """Raises what `lock` would where it cannot write there, as far as that shows without a change."""
        try:
            there = next(one for one in (self.path, *self.path.absolute().parents) if one.exists())
        except OSError as error:
            raise self.unusable(error) from error
        if there != self.path and not there.is_dir():
            raise self.unusable(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
        if not os.access(there, os.W_OK | (os.X_OK if there.is_dir() else 0)):
            raise self.unusable(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    def _whoever(self) -> str:
        return _known_holder(self.path) or self.holder()

    def unusable(self, error: OSError) -> UsageError | StorageError:
        """What to raise where the place cannot be written to: the user's mistake, or the disk's."""
        if error.errno in _WRONG_PLACE:
            return UsageError(
                f"{self.option}: cannot write to {self.named}: {error.strerror}; name another {self.noun}"
            )
        return StorageError(f"cannot open {self.path}: {error.strerror}", path=str(self.path))

    def _try(self, warn: Callable[[str], None]) -> Locked | None:
        if (what := other_than_a_file(Path(os.path.realpath(self.path)))) is not None:
            raise UsageError(f"{self.option}: {self.named} is {what}, not a file; name another {self.noun}")
        try:
            made = missing_folders(self.path.parent)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            created = not self.path.exists()
            descriptor = open_append(self.path, self.mode)
        except OSError as error:
            raise self.unusable(error) from error
        with contextlib.ExitStack() as unless_ours:
            unless_ours.callback(let_go, descriptor)
            try:
                try_lock(descriptor)
            except OSError as error:
                if error.errno not in _NOT_SUPPORTED:
                    return None
                warn(
                    f"{self.path}: this file system has no locks ({error.strerror}); "
                    "make sure only one collector runs"
                )
            else:  # whoever held it may have taken the file away, or put another there
                if not _is_still(self.path, descriptor):
                    return self._try(warn)
            unless_ours.pop_all()
        return Locked(self.path, descriptor, created, made)


def missing_folders(folder: Path) -> tuple[Path, ...]:
    """This one and those above it that are not there, from it upwards. Raises OSError."""
    return tuple(itertools.takewhile(lambda one: not one.exists(), (folder, *folder.parents)))


def try_lock(descriptor: int) -> None:
    """Lock an open file, or raise OSError at once."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_still(path: Path, descriptor: int) -> bool:
    ours = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def holder_of(path: Path) -> int | None:
    """The process of this machine that holds a lock on the file, as the kernel tells; None for nobody.

    Takes no lock: looking disturbs nobody. A holder on another host cannot be seen. The kernel names a file
    by its device and a number; some file systems (overlayfs, btrfs) show another device than they lock by,
    and a file elsewhere may have the same number. So who is named has to have the file open too. Where that
    cannot be seen (another user's process, or one that has left the file to a child), the name decides.
    """
    unseen: list[int] = []
    with contextlib.suppress(OSError, IndexError, ValueError):
        there = path.stat()
        for pid in _named_holders(_LOCKS.read_text(), there.st_dev, there.st_ino):
            if (opened := _has_open(pid, path)) is None:
                unseen.append(pid)
            elif opened:
                return pid
    return unseen[0] if unseen else None


def _named_holders(locks: str, device: int, number: int) -> list[int]:
    """Who may hold a lock on that file by the kernel's table; whoever it names by the file's device first."""
    whole = f"{os.major(device):02x}:{os.minor(device):02x}:{number}"
    fields = [line.split() for line in locks.splitlines()]
    holders = {lock[-3]: int(lock[4]) for lock in fields if "FLOCK" in lock and "->" not in lock}
    named = [name for name in holders if name.endswith(f":{number}")]
    return [holders[name] for name in sorted(named, key=lambda name: name != whole)]


def _has_open(pid: int, path: Path) -> bool | None:
    """None where that cannot be seen."""
    try:
        opened = list(Path(f"/proc/{pid}/fd").iterdir())
    except (PermissionError, FileNotFoundError):
        return None
    for one in opened:
        with contextlib.suppress(OSError):  # it was closed meanwhile
            if one.samefile(path):
                return True
    return False


def _known_holder(path: Path) -> str | None:
    """The kernel's word on who holds the lock; another host's is not in it."""
    holder = holder_of(path)
    return None if holder is None else f"another collector, process {holder} on {os.uname().nodename}"
