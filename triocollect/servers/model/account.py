"""The ledger of this process and its files: changes that come together share one sync.

It is an account of what was served, and a checkpoint has its own rows: what cannot be written is told, and
fails no call. Nor does it slow them down: after a failure everything has to be written anew, so it is tried
again only after many times as long as the last try took, half a minute at most. A retire alone is answered
by what the disk says.

Nobody waits for a disk that hangs. The thread that does keeps the files to itself until it ends: what comes
meanwhile is written after it.
"""

import logging
import threading
from collections.abc import Callable
from functools import cached_property, partial
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
AGAIN_MOST_S: Final = 30.0  # also where a machine slept amid it: retires wait for the next one
PATIENCE_S: Final = 5.0  # with a disk
_LOOK_S: Final = 0.05  # at a thread that nobody waits for


@final
class _Write:
    """What a thread does: all changes up to the `noted`th, of which `lines` were not on disk, are then."""

    def __init__(self, noted: int, lines: int, began: float, work: Callable[[], None]) -> None:
        self.noted: Final = noted
        self.lines: Final = lines
        self.began: Final = began
        self._work: Final = work
        self._turn: Final = threading.Lock()
        self._begun = self._dropped = False
        self.late = False  # nobody waits for it any more
        self.done = False
        self.error: Exception | None = None

    def __call__(self) -> None:
        with self._turn:
            if self._dropped:
                return
            self._begun = True
        try:
            self._work()
        except Exception as error:  # noqa: BLE001  # nobody may be there to raise it to
            self.error = error
        finally:
            self.done = True

    def drop(self) -> bool:
        """Have it not happen. Answers False where it has begun."""
        with self._turn:
            self._dropped = not self._begun
            return self._dropped


@final
class Account:
    """`note` changes the ledger at once, `durable` returns when the files in `folder` say so too.

    Without a folder there is no file. `share`: which of the server's processes this is.
    """

    def __init__(self, folder: Path | None, in_thread: InThread, share: Share = ALONE) -> None:
        self._files: Final = None if folder is None else LedgerFiles(folder, share, owner_of)
        self.in_thread: Final = in_thread
        self._lines: Final[list[bytes]] = []  # not on disk yet
        self._noted = self._tried = self._safe = 0  # changes: made, given to the disk, taken by it
        self._writing: anyio.Event | None = None  # somebody is at it
        self._under_way: _Write | None = None
        self._failure: StorageError | None = None  # of the last write
        self._not_before = 0.0

    @cached_property
    def ledger(self) -> Ledger:
        """What is known, with what earlier processes left. They are read when it is first asked for."""
        return Ledger() if self._files is None else self._files.read()

    def open(self) -> None:
        """Read what there is now, rather than amid the first call."""
        _ = self.ledger

    def note(self, entry: Entry) -> None:
        """Carry out a change; the files follow at the next `written` or `durable`."""
        self.ledger.apply(entry)
        self._noted += 1
        if self._files is not None:
            self._lines.append(msgspec.json.encode(entry) + b"\n")

    async def written(self) -> None:
        """Return when every change so far survives a power cut, or when it was told that it does not."""
        await self._give_to_disk()

    async def durable(self) -> None:
        """Return when every change so far survives a power cut.

        Raises StorageError where the disk refuses them, or is not through with them after `PATIENCE_S`. They
        are not lost by that: the next write has them too.
        """
        wanted = self._noted
        await self._give_to_disk()
        if self._files is not None and self._safe < wanted:
            assert self._failure is not None, "what was tried and is not safe has failed"
            raise self._failure

    def close(self) -> None:
        """Let go of the file."""
        if self._files is not None and self._under_way is None:
            self._files.close()

    async def _give_to_disk(self) -> None:
        wanted = self._noted
        if (files := self._files) is None:
            return
        hangs = self._under_way is not None and self._under_way.late and not self._under_way.done
        with anyio.move_on_after(0 if hangs else PATIENCE_S) as patience:
            while self._tried < wanted:
                await self._write_or_wait(files)
        if patience.cancelled_caught:
            if self._under_way is not None:
                self._under_way.late = True
            late = f"{files.folder} is not written after {PATIENCE_S:g} s: its disk does not answer"
            self._fails(StorageError(late, path=str(files.folder)))

    async def _write_or_wait(self, files: LedgerFiles) -> None:
        if self._writing is not None:
            await self._writing.wait()
            return
        self._writing = anyio.Event()
        try:
            await self._write(files)
        finally:
            self._writing.set()
            self._writing = None

    async def _write(self, files: LedgerFiles) -> None:
        """See one write to its end, that which somebody began who waited no longer if there is one."""
        if (write := self._under_way) is not None:
            while not write.done:  # noqa: ASYNC110  # a thread that was given up reaches no event of the loop
                await anyio.sleep(_LOOK_S)
        elif (now := anyio.current_time()) < self._not_before:
            self._tried = self._noted
            return
        else:
            write = self._under_way = _Write(self._noted, len(self._lines), now, self._next(files))
            try:
                await self.in_thread(write)
            finally:
                if write.drop():
                    self._under_way = None
        self._under_way = None
        self._ended(files, write)

    def _ended(self, files: LedgerFiles, write: _Write) -> None:
        self._tried = write.noted
        if isinstance(write.error, StorageError):
            files.close()  # the next one begins with all that this one lacks
            self._lines.clear()
            now = anyio.current_time()
            self._not_before = now + min(max(AGAIN_S, AGAIN_TIMES * (now - write.began)), AGAIN_MOST_S)
            self._fails(write.error)
        elif write.error is not None:
            raise write.error
        else:
            del self._lines[: write.lines]
            self._safe, self._failure = write.noted, None

    def _fails(self, error: StorageError) -> None:
        if self._failure is None:
            _log.warning(NOTE + "calls are served, and their ledger is not written: %s", error)
        self._failure = error

    def _next(self, files: LedgerFiles) -> Callable[[], None]:
        """What a thread has to do."""
        if not files.wants_snapshot:
            return partial(files.append, b"".join(self._lines))
        snapshot = self.ledger.snapshot()
        return lambda: files.begin(msgspec.json.encode(snapshot) + b"\n")
