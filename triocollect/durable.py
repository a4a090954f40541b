"""Files that survive: the only module that calls fsync and replace.

Three shapes cover every file of a run: a small file replaced whole (`replace`), a big file written once
(`Draft`), a file of lines that only grows (`AppendFile`). All raise StorageError, naming the file. `mode` is
what a new file may be used for, less the umask.
"""

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from triocollect.errors import StorageError

_BUFFER_BYTES: Final = 1 << 20
_ANYBODY: Final = 0o666
_OTHERS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


@contextlib.contextmanager
def _naming(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {doing} {path}: {error.strerror or error}", path=str(path)) from error


def unreadable(path: Path, error: OSError) -> StorageError:
    """What to raise for a file that cannot be read."""
    return StorageError(f"cannot read {path}: {error.strerror or error}", path=str(path))


def other_than_a_file(path: Path) -> str | None:
    """What bears this name and is no file, "a folder", "a link"; None for a file or nothing."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    if stat.S_ISREG(mode):
        return None
    return next((words for is_it, words in _OTHERS if is_it(mode)), "a device")


def set_aside(path: Path) -> str | None:
    """Give what stands where a file of ours belongs, and is none, another name; what was done, in words.

    None where nothing was to be done. Raises StorageError.
    """
    if (what := other_than_a_file(path)) is None:
        return None
    aside, number = path.with_name(f"{path.name}.not-a-file"), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.not-a-file-{number}")
    move(path, aside)
    return f"{path} was {what} where a file of ours belongs; it is called {aside.name} now"


def open_file(path: Path) -> io.FileIO:
    """Open for reading, unbuffered. Raises OSError, also for what is no file: a pipe would never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file")
    return io.FileIO(descriptor, "rb")


def read_at_most(path: Path, most: int) -> bytes:
    """All bytes of a file that ought to be small. Raises OSError, also where it is larger or no file."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size} bytes, which is more than {most}")
        return file.readall()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    with _naming(folder, "sync"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Make a folder whose name is durable; its parent is there, it is not."""
    with _naming(folder, "create"):
        folder.mkdir(mode=mode)
    sync_folder(folder.parent)


def have_folder(folder: Path, *, mode: int = 0o777) -> None:
    """The same, unless it is there: others may want the same folder, and one of them be quicker."""
    if folder.is_dir():
        return
    try:
        make_folder(folder, mode=mode)
    except StorageError:
        if not folder.is_dir():
            raise


def move(old: Path, new: Path) -> None:
    """Give a file or folder another name in the same folder, durably; a file there is replaced."""
    with _naming(old, "rename"):
        old.replace(new)
    sync_folder(new.parent)


def replace(path: Path, data: bytes, *, mode: int = _ANYBODY) -> None:
    """Put `data` at `path` so that after any crash the old or the new bytes are there, whole."""
    draft = Draft(path, mode=mode)
    try:
        draft.write(data)
        draft.commit()
    except BaseException:
        draft.discard()
        raise


def remove(path: Path) -> None:
    """Take a file away, durably; one that is not there is fine."""
    with _naming(path, "remove"), contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)


class Draft:
    """A file written beside its place, `.<name>.tmp`, and put there whole by `commit`.

    The name is fixed, so what a killed run left is written over by the next and never piles up; whoever
    drafts holds the lock of the run.
    """

    def __init__(self, path: Path, *, mode: int = _ANYBODY) -> None:
        self.path: Final = path
        self.draft_path: Final = path.with_name(f".{path.name}.tmp")
        with _naming(self.draft_path, "create"):
            set_aside(self.draft_path)  # it would be written through, or waited at
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._file: Final = os.fdopen(os.open(self.draft_path, flags, mode), "wb", _BUFFER_BYTES)

    def write(self, data: bytes) -> None:
        """Add bytes; nothing is to be seen at `path` yet."""
        with _naming(self.draft_path, "write"):
            self._file.write(data)

    def flush(self) -> None:
        """Hand everything to the kernel, so that the draft can be read at `draft_path`."""
        with _naming(self.draft_path, "write"):
            self._file.flush()

    def sync(self) -> None:
        """Make the bytes durable where they are, so that `commit` has little left to wait for."""
        with _naming(self.draft_path, "write"):
            self._file.flush()
            os.fsync(self._file.fileno())

    def commit(self, name: str | None = None) -> None:
        """Make it durable and move it to its place, or to `name` beside it, when that came with the bytes."""
        with _naming(self.draft_path, "write"):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self.draft_path.replace(self.path if name is None else self.path.with_name(name))
        sync_folder(self.path.parent)

    def discard(self) -> None:
        """Leave the old file as it is. Harmless after `commit` and when repeated."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self.draft_path.unlink()


class AppendFile:
    """Lines that only grow. One writer; each line is one write, or it is not there.

    A write that fails or comes short is taken back to the last whole line before anything else happens, so
    that the next line never lands behind half of this one.
    """

    def __init__(self, path: Path, *, descriptor: int | None = None, mode: int = _ANYBODY) -> None:
        """Open for appending, or take over a descriptor that was opened (and locked) for that.

        The name of a file that is made here is durable: without it the syncs of its bytes would be in vain.
        """
        self.path: Final = path
        if descriptor is None:
            descriptor = _open_lasting(path, mode)
        self._fd = descriptor
        with _naming(path, "open"):
            self.size = os.fstat(self._fd).st_size
        self._changes = int(self.size > 0)  # a process that was killed may have written what nobody synced
        self._synced = 0

    @property
    def unsynced(self) -> bool:
        """Whether a power cut would lose something."""
        return self._changes != self._synced

    def append(self, line: bytes) -> None:
        """Write one line, its newline included. With the kernel when this returns: survives kill -9."""
        with _naming(self.path, "append to"):
            try:
                self._write_whole(line)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self.size)
                raise
        self.size += len(line)
        self._changes += 1

    def _write_whole(self, line: bytes) -> None:
        # A short write may be a full disk or a signal: the second try tells which.
        if os.write(self._fd, line) == len(line):
            return
        os.ftruncate(self._fd, self.size)
        if os.write(self._fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate(self, size: int) -> None:
        """Cut the file back to `size` bytes."""
        with _naming(self.path, "cut"):
            os.ftruncate(self._fd, size)
            self.size = size
        self._changes += 1

    def confirm(self) -> None:
        """Raise StorageError unless the file is still at its path and as long as what was written.

        A descriptor goes on working when somebody removes, replaces or cuts the file: rows would be lost
        without a word.
        """
        with _naming(self.path, "find"):
            ours, there = os.fstat(self._fd), self.path.stat()
        if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino):
            self._lost(f"{self.path} was replaced by another file while it was written")
        if ours.st_size != self.size:
            self._lost(f"{self.path} was changed by somebody else: {ours.st_size} bytes, not {self.size}")

    def _lost(self, what: str) -> NoReturn:
        raise StorageError(what, path=str(self.path))

    def sync(self) -> None:
        """Make everything appended so far durable: survives a power cut. May block for long."""
        changes = self._changes
        with _naming(self.path, "sync"):
            os.fsync(self._fd)
        self._synced = max(self._synced, changes)

    def close(self) -> None:
        """Let go of the file, and of a lock on it. Does not sync."""
        let_go(self._fd)


def let_go(descriptor: int) -> None:
    """Close it. What the disk says to that is too late: whatever has to last was synced before."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _open_lasting(path: Path, mode: int) -> int:
    """Open for appending; the name of a file that is made here is durable. Raises StorageError."""
    is_new = not os.path.lexists(path)
    with _naming(path, "open"):
        descriptor = open_append(path, mode)
    try:
        if is_new:
            sync_folder(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_append(path: Path, mode: int = _ANYBODY) -> int:
    """A descriptor that reads anywhere and writes at the end only; creates the file. Raises OSError."""
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
