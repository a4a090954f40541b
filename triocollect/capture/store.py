"""The ledger on disk: entries in files of lines, from which a process that starts has it again.

    <folder>/ledger-<number, 6 digits>.jsonl      the highest counts: it begins with a snapshot

A process reads what earlier ones left, and begins a file of its own at its first change; so one that still
runs beside it disturbs nothing. A file that has grown far beyond what it says is followed by the next.
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

import msgspec

from triocollect.capture.ledger import Entry, Ledger
from triocollect.durable import AppendFile, make_folder, read_at_most, remove, replace, unreadable
from triocollect.protocol.values import NOT_JSON

CAPTURE: Final = "capture"  # below a checkpoint directory; each model server has a folder of its own there
MOST_BYTES: Final = 8 << 20  # of a file, before it is looked whether a snapshot would be much smaller
MOST_WASTE: Final = 4  # a file may be so many times as large as its snapshot was
_MOST_READ: Final = 1 << 32
_NAME: Final = re.compile(r"ledger-(\d{6,})\.jsonl")
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_log: Final = logging.getLogger("triocollect.capture")
_decode: Final = msgspec.json.Decoder[Entry](Entry).decode


@final
class LedgerFiles:
    """The files of one process in `folder`. All methods block, and but for `read` raise StorageError."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._number = max(_files(folder), default=0)
        self._file: AppendFile | None = None
        self._first_bytes = 0  # of the snapshot that the file began with

    def read(self) -> Ledger:
        """What earlier processes left. What cannot be read, or is damaged, is told and left out."""
        ledger = Ledger()
        for _, path in sorted(_files(self._folder).items()):
            try:
                data = read_at_most(path, _MOST_READ)
            except OSError as error:
                _log.warning("%s", unreadable(path, error))
                continue
            for entry in _entries(path, data):
                ledger.apply(entry)
        return ledger

    @property
    def wants_snapshot(self) -> bool:
        """Whether the next thing to write is everything, in a file of its own."""
        return self._file is None or self._file.size > max(MOST_BYTES, MOST_WASTE * self._first_bytes)

    def begin(self, snapshot: bytes) -> None:
        """A new file: it is there whole before those that it stands for are gone."""
        self.close()
        for missing in [one for one in (self._folder.parent, self._folder) if not one.is_dir()]:
            make_folder(missing, mode=_FOLDER_MODE)
        self._number += 1
        path = self._folder / f"ledger-{self._number:06}.jsonl"
        replace(path, snapshot, mode=_FILE_MODE)
        for other, old in _files(self._folder).items():
            if other < self._number:
                remove(old)
        self._file, self._first_bytes = AppendFile(path, mode=_FILE_MODE), len(snapshot)

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


def _files(folder: Path) -> dict[int, Path]:
    try:
        names = [(found, path) for path in folder.iterdir() if (found := _NAME.fullmatch(path.name))]
    except OSError:
        return {}  # there is none, or it is told when it is written
    return {int(found[1]): path for found, path in names}


def _entries(path: Path, data: bytes) -> Iterator[Entry]:
    """Those that are whole. The last line of a killed process may be torn, and was promised to nobody."""
    *lines, _torn = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield _decode(line)
        except NOT_JSON as error:
            _log.warning("%s, line %d is damaged, and left out: %s", path, number, error)
