"""The checkpoint directory of a run: whose it is, which collector of it this is, and how to signal that one.

Only the lock decides whether somebody collects here; `collector.pid` is for signals and may be stale. The
content of `collector.lock` outlives every collector: the run's id, and the epoch, which counts collectors and
is durable before any server hears of it.
"""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from triocollect.checkpoint.ladder import collections_in
from triocollect.checkpoint.names import FOLDER_MODE, MODE
from triocollect.checkpoint.sent import read_header
from triocollect.durable import (
    AppendFile,
    Draft,
    let_go,
    make_folder,
    open_append,
    open_file,
    read_at_most,
    remove,
    replace,
    set_aside,
    unreadable,
)
from triocollect.errors import DamageError, LockedError, StorageError
from triocollect.locking import Lockable, Locked, missing_folders, try_lock
from triocollect.protocol.manifests import LOCK, MOST_LOCK_BYTES, CheckpointOutcome, LockFile
from triocollect.protocol.messages import MOST_COUNTED
from triocollect.protocol.values import NOT_JSON

PID: Final = "collector.pid"
OUTCOMES: Final = "outcomes.jsonl"
DISPATCHED: Final = "dispatched.jsonl"

_FILES: Final = (LOCK, PID, OUTCOMES)  # a dispatch log tells something even where it is none
_MOST_OUTCOMES: Final = 64 << 20  # bytes; of more than that only the last ones are read


class Directory:
    """A checkpoint directory that is ours while this is open."""

    def __init__(self, locked: Locked, made: tuple[Path, ...]) -> None:
        """See `open_directory`. `fault` says what was wrong with the content of the lock file."""
        self.path: Final = locked.path.parent
        self.fault: str | None = None
        self._locked: Final = locked
        self._made: Final = made  # folders that were not there, from this one upwards
        self._descriptor = locked.descriptor
        self._lock_path: Final = locked.path
        self._ours: LockFile | None = None
        self.lock_sha256: str | None = None  # hex, of the lock file's bytes once the epoch is raised
        try:
            found = read_lock(self.path)
        except (DamageError, StorageError) as error:
            self.fault = f"{error}; which run's the directory is, other files may tell"
            found = None
        self._epoch = 0 if found is None else found.epoch
        self.run: Final = (
            (run_by_other_files(self.path) or secrets.token_hex(8)) if found is None else found.run
        )

    @property
    def epoch(self) -> int:
        """That of this collector once it is raised; before, that of the last one (0: there was none)."""
        return self._epoch

    def raise_epoch(self, seen: int = 0) -> int:
        """Take the next epoch: above the file's and the highest that was `seen` at a server. Durable.

        Raises StorageError.
        """
        ours = LockFile(
            run=self.run,
            epoch=max(self._epoch, seen) + 1,
            pid=os.getpid(),
            host=os.uname().nodename,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        data = msgspec.json.encode(ours) + b"\n"
        self._put(data)
        self.lock_sha256 = hashlib.sha256(data).hexdigest()
        self._ours, self._epoch = ours, ours.epoch
        return self._epoch

    def _put(self, data: bytes) -> None:
        """Replace the lock file by one that is locked before it bears the name: nobody gets in between."""
        draft = Draft(self._lock_path, mode=MODE)
        descriptor = None
        try:
            draft.write(data)
            draft.flush()
            descriptor = open_append(draft.draft_path, MODE)
            with contextlib.suppress(OSError):  # no locks here; that was said when the first was taken
                try_lock(descriptor)
            draft.commit()
        except OSError as error:
            raise StorageError(
                f"cannot replace {self._lock_path}: {error}", path=str(self._lock_path)
            ) from error
        finally:
            if descriptor is not None:
                moved = not draft.draft_path.exists()
                if moved:
                    self._descriptor, descriptor = descriptor, self._descriptor
                let_go(descriptor)
            draft.discard()

    def confirm(self) -> None:
        """Raise LockedError when another collector has taken the directory.

        A lock may hold on one host only. A lock file that cannot be read proves nothing.
        """
        there = None
        with contextlib.suppress(DamageError, StorageError):
            there = read_lock(self.path)
        if there is not None and there != self._ours:
            raise LockedError(
                f"{self.path} has been taken over by {_words(there)}, epoch {there.epoch}; "
                f"this collector, epoch {self._epoch}, publishes nothing any more"
            )

    def write_pid(self) -> None:
        """Say where signals go; call it when they are listened to. Raises StorageError."""
        replace(self.path / PID, b"%d\n" % os.getpid(), mode=MODE)

    def remove_pid(self) -> None:
        """Take it away, if it is ours. Raises StorageError."""
        if read_pid(self.path) == os.getpid():
            remove(self.path / PID)

    def append_outcome(self, outcome: CheckpointOutcome) -> None:
        """Tell how a try ended to whoever waits for it. Raises StorageError."""
        path = self.path / OUTCOMES
        file = AppendFile(path, mode=MODE)
        try:
            # Half a line of a collector that died stays by itself.
            torn = b"" if _ends_in_newline(path) else b"\n"
            file.append(torn + msgspec.json.encode(outcome) + b"\n")
        finally:
            file.close()

    def back_out(self) -> None:
        """Leave everything as it was found, when nothing was done here; then `close`."""
        if self._descriptor == self._locked.descriptor:
            with contextlib.suppress(StorageError):
                self.remove_pid()
            self._locked.back_out()
            with contextlib.suppress(OSError):
                for folder in self._made:
                    folder.rmdir()  # the first that somebody uses ends this

    def close(self) -> None:
        """Let the next collector in."""
        let_go(self._descriptor)


async def open_directory(path: Path, *, wait_s: float | None, warn: Callable[[str], None]) -> Directory:
    """Make the directory where it is missing, and lock it; wait up to `wait_s` seconds (None: not at all).

    What stands there under the name of a file of ours and is no file is set aside and told.
    Raises LockedError naming the collector that is at work there, UsageError where it cannot be.
    """
    its_lock = lockable(path)
    try:
        made = _make(path)
    except OSError as error:
        raise its_lock.unusable(error) from error
    _make_way((LOCK,), path, warn)
    locked = await its_lock.lock(wait_s=wait_s, warn=warn)
    try:
        _make_way(_FILES, path, warn)
        return Directory(locked, made)
    except BaseException:
        let_go(locked.descriptor)
        raise


def lockable(path: Path) -> Lockable:
    """What is locked of a directory, which need not be there."""
    return Lockable(
        path=path / LOCK,
        option="--checkpoint-dir",
        named=path,
        noun="directory",
        in_use=f"{path} is in use by",
        holder=lambda: _holder(path),
        mode=MODE,
    )


def read_lock(root: Path) -> LockFile | None:
    """Who collects there, or did last; None for nobody ever. Raises DamageError, StorageError."""
    path = root / LOCK
    try:
        with open_file(path) as file:
            data = file.read(MOST_LOCK_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    if not data:
        return None  # locked for the first time, and nothing done yet
    try:
        lock = msgspec.json.decode(data, type=LockFile)
    except NOT_JSON as error:
        raise DamageError(f"{path} is damaged: {error}") from error
    if not lock.run or not 0 <= lock.epoch < MOST_COUNTED:
        raise DamageError(f"{path} is damaged: run {lock.run!r}, epoch {lock.epoch}")
    return lock


def run_by_other_files(root: Path) -> str | None:
    """Which run's the directory is where the lock file does not say it; None where nothing else does."""
    header = read_header(root / DISPATCHED)
    if header is not None and header.run:
        return header.run
    return next((one.run for one in collections_in(root) if one.run), None)


def read_pid(root: Path) -> int | None:
    """The process that `collector.pid` names, which may be gone; None where it names none."""
    try:
        text = read_at_most(root / PID, MOST_LOCK_BYTES)[:32].strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def read_outcomes(root: Path, offset: int = 0) -> tuple[list[CheckpointOutcome], int]:
    """The outcomes behind `offset` bytes, and the offset behind the last whole line. Raises StorageError."""
    path = root / OUTCOMES
    try:
        with open_file(path) as file:
            end = file.seek(0, os.SEEK_END)
            offset = file.seek(max(min(offset, end), end - _MOST_OUTCOMES))
            data = file.readall()
    except FileNotFoundError:
        return [], offset
    except OSError as error:
        raise unreadable(path, error) from error
    whole = data[: data.rfind(b"\n") + 1]
    found = []
    for line in whole.split(b"\n"):  # and at nothing else: a lone CR ends no line of ours
        with contextlib.suppress(*NOT_JSON):
            found.append(msgspec.json.decode(line, type=CheckpointOutcome))
    return found, offset + len(whole)


def _make(path: Path) -> tuple[Path, ...]:
    """Make the folder and those above it, so that a cut of the power loses none; those that were missing.

    Raises OSError.
    """
    missing = missing_folders(path)
    for folder in reversed(missing):
        try:
            make_folder(folder, mode=FOLDER_MODE if folder == path else 0o777)
        except StorageError as error:
            if not folder.is_dir() and isinstance(error.__cause__, OSError):
                raise error.__cause__ from None  # else somebody else has just made it
    return missing


def _make_way(names: Iterable[str], root: Path, warn: Callable[[str], None]) -> None:
    for name in names:
        if (done := set_aside(root / name)) is not None:
            warn(done)


def _holder(root: Path) -> str:
    with contextlib.suppress(DamageError, StorageError):
        if (lock := read_lock(root)) is not None:
            return _words(lock)
    return "another collector"


def _words(lock: LockFile) -> str:
    return f"another collector, process {lock.pid} on {lock.host}, started {lock.started}"


def _ends_in_newline(path: Path) -> bool:
    """So does an empty file."""
    try:
        with open_file(path) as file:
            if not file.seek(0, os.SEEK_END):
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError as error:
        raise unreadable(path, error) from error
