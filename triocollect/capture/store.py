"""The ledger on disk: entries in files of lines, from which a process that starts has it again.

All files of one server are in its folder, whatever its number of processes is or was (`shares`). A process
reads what earlier ones left, and begins a file of its own at its first change; so one that still runs beside
it disturbs nothing. Each file begins with a snapshot, and one that has grown far beyond what it says is
followed by the next.
"""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, final

import msgspec

from triocollect.capture.ledger import Entry, Ledger
from triocollect.capture.shares import LedgerFile, Owner, Share, in_turn, name_of, named, outlived
from triocollect.durable import AppendFile, have_folder, read_at_most, remove, replace, unreadable
from triocollect.errors import StorageError
from triocollect.protocol.values import NOT_JSON

CAPTURE: Final = "capture"  # below a checkpoint directory; each model server has a folder of its own there
MOST_BYTES: Final = 8 << 20  # of a file, before it is looked whether a snapshot would be much smaller
MOST_WASTE: Final = 4  # a file may be so many times as large as its snapshot was
_MOST_READ: Final = 1 << 32
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_log: Final = logging.getLogger("triocollect.capture")
_decode: Final = msgspec.json.Decoder[Entry](Entry).decode


@final
class LedgerFiles:
    """The files of one process in `folder`. All methods block, and but for `read` raise StorageError."""

    def __init__(self, folder: Path, share: Share, owner: Owner) -> None:
        self.folder: Final = folder
        self._share: Final = share
        self._owner: Final = owner
        self._number = 0
        self._file: AppendFile | None = None
        self._first_bytes = 0  # of the snapshot that the file began with

    def read(self) -> Ledger:
        """What earlier ones left of this share. What is damaged or cannot be read is told, and left out."""
        ledger = Ledger()
        try:
            there = _files(self.folder)
        except StorageError as error:
            _log.warning("%s", error)
            return ledger
        for share, files in in_turn(there, self._share):
            both = frozenset({share, self._share})

            def whose(rollout_id: str, both: frozenset[Share] = both) -> bool:
                return all(self._owner(rollout_id, one.of) == one.number for one in both)

            ledger.take_over(_read(files).snapshot(), whose)
        return ledger

    @property
    def wants_snapshot(self) -> bool:
        """Whether the next thing to write is everything, in a file of its own."""
        return self._file is None or self._file.size > max(MOST_BYTES, MOST_WASTE * self._first_bytes)

    def begin(self, snapshot: bytes) -> None:
        """A new file: it is there whole before those that it stands for are gone."""
        self.close()
        for folder in (self.folder.parent, self.folder):
            have_folder(folder, mode=_FOLDER_MODE)
        there = _files(self.folder)
        self._number = 1 + max((self._number, *(one.number for one in there)))
        path = self.folder / name_of(self._number, self._share)
        replace(path, snapshot, mode=_FILE_MODE)
        self._file, self._first_bytes = AppendFile(path, mode=_FILE_MODE), len(snapshot)
        _remove(outlived(there, self._number, self._share))

    def append(self, lines: bytes) -> None:
        """These are durable when it returns."""
        assert self._file is not None, "it begins with a snapshot"
        self._file.append(lines)
        self._file.sync()

    def close(self) -> None:
        """Let go of the file: what comes next begins another one."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _files(folder: Path) -> list[LedgerFile]:
    """Those that are there. Raises StorageError: whoever does not see them all gives a number twice."""
    try:
        return [one for path in folder.iterdir() if (one := named(path)) is not None]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error


def _remove(paths: Iterable[Path]) -> None:
    """One that stays fails nothing: a later file says more, and whoever begins the next meets it again."""
    for path in paths:
        try:
            remove(path)
        except StorageError as error:
            _log.warning("%s", error)


def _read(files: Iterable[LedgerFile]) -> Ledger:
    """What the files of one share say, in this order."""
    ledger = Ledger()
    for one in files:
        try:
            data = read_at_most(one.path, _MOST_READ)
        except OSError as error:
            _log.warning("%s", unreadable(one.path, error))
            continue
        for entry in _entries(one.path, data):
            ledger.apply(entry)
    return ledger


def _entries(path: Path, data: bytes) -> Iterator[Entry]:
    """Those that are whole. The last line of a killed process may be torn, and was promised to nobody."""
    *lines, _torn = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield _decode(line)
        except NOT_JSON as error:
            _log.warning("%s, line %d is damaged, and left out: %s", path, number, error)
