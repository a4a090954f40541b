"""The ledger of this process and its files: changes that come together share one sync.

It is an account of what was served, and a checkpoint has its own rows: what cannot be written is told, and
fails no call. Nor does it slow them down: after a failure everything has to be written anew, so it is tried
again only after many times as long as the last try took.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, final

import anyio
import msgspec

from triocollect.capture.ledger import Entry, Ledger
from triocollect.capture.shares import ALONE, Share
from triocollect.capture.store import LedgerFiles
from triocollect.errors import StorageError
from triocollect.participant.standing import InThread
from triocollect.participant.workers.owner import owner_of
from triocollect.protocol.handed_down import NOTE

_log: Final = logging.getLogger("triocollect.servers")

AGAIN_S: Final = 1.0  # after a write that failed, at least
AGAIN_TIMES: Final = 20.0  # what it took


@final
class Account:
    """`note` changes the ledger at once, `durable` returns when the files in `folder` say so too.

    Without a folder there is no file. `share`: which of the server's processes this is.
    """

    def __init__(self, folder: Path | None, in_thread: InThread, share: Share = ALONE) -> None:
        self._files: Final = None if folder is None else LedgerFiles(folder, share, owner_of)
        self.ledger: Final = Ledger() if self._files is None else self._files.read()
        self.in_thread: Final = in_thread
        self._lines: Final[list[bytes]] = []  # not written yet
        self._noted = self._written = 0
        self._writing: anyio.Event | None = None
        self._failing = False
        self._not_before = 0.0

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
        if (began := anyio.current_time()) >= self._not_before:
            try:
                await self.in_thread(self._next(files, lines))
                self._failing = False
            except StorageError as error:
                files.close()  # the next one begins with all that this one lacks
                if not self._failing:
                    _log.warning(NOTE + "calls are served, and their ledger is not written: %s", error)
                self._failing = True
                now = anyio.current_time()
                self._not_before = now + max(AGAIN_S, AGAIN_TIMES * (now - began))
        self._written = noted

    def _next(self, files: LedgerFiles, lines: bytes) -> Callable[[], None]:
        """What a thread has to do."""
        if not files.wants_snapshot:
            return partial(files.append, lines)
        snapshot = self.ledger.snapshot()
        return lambda: files.begin(msgspec.json.encode(snapshot) + b"\n")
