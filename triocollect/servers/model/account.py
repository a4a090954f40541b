"""The ledger of this process and its files: changes that come together share one sync.

It is an account of what was served, and a checkpoint has its own rows: what cannot be written is told, and
fails no call.
"""

import logging
from functools import partial
from pathlib import Path
from typing import Final, final

import anyio
import msgspec

from triocollect.capture.ledger import Entry, Ledger
from triocollect.capture.store import LedgerFiles
from triocollect.errors import StorageError
from triocollect.participant.standing import InThread

_log: Final = logging.getLogger("triocollect.servers")


@final
class Account:
    """`note` changes the ledger at once, `durable` returns when the files in `folder` say so too.

    Without a folder there is no file.
    """

    def __init__(self, folder: Path | None, in_thread: InThread) -> None:
        self._files: Final = None if folder is None else LedgerFiles(folder)
        self.ledger: Final = Ledger() if self._files is None else self._files.read()
        self.in_thread: Final = in_thread
        self._lines: Final[list[bytes]] = []  # not written yet
        self._noted = self._written = 0
        self._writing: anyio.Event | None = None
        self._failing = False

    def note(self, entry: Entry) -> None:
        """Carry out a change; the files follow at the next `durable`."""
        self.ledger.apply(entry)
        self._noted += 1
        if self._files is not None:
            self._lines.append(msgspec.json.encode(entry) + b"\n")

    async def durable(self) -> None:
        """Return when every change so far survives a power cut, or when it was told that it does not."""
        wanted = self._noted
        while self._files is not None and self._written < wanted:
            if self._writing is not None:
                await self._writing.wait()
                continue
            self._writing = anyio.Event()
            try:
                with anyio.CancelScope(shield=True):  # the thread would go on, and nobody know what it did
                    await self._write(self._files)
            finally:
                self._writing.set()
                self._writing = None

    def close(self) -> None:
        """Let go of the file."""
        if self._files is not None:
            self._files.close()

    async def _write(self, files: LedgerFiles) -> None:
        noted, lines = self._noted, b"".join(self._lines)
        self._lines.clear()
        write = partial(files.append, lines)
        if files.wants_snapshot:
            write = partial(files.begin, msgspec.json.encode(self.ledger.snapshot()) + b"\n")
        try:
            await self.in_thread(write)
            self._failing = False
        except StorageError as error:
            files.close()  # the next one begins with all that this one lacks
            if not self._failing:
                _log.warning("calls are served, and their ledger is not written: %s", error)
            self._failing = True
        self._written = noted
