"""Where the ends of rows are written. Appending is synchronous and whole; syncing is not.

"Written" means the bytes are with the kernel, which survives a kill of the process. Once a second at most,
while there is something new, both files are made durable, which survives a power cut.
"""

import os
import threading
from collections.abc import Callable
from typing import Final

import trio

from triocollect.checkpoint.airspace import Blocking
from triocollect.durable import AppendFile
from triocollect.protocol.ids import EpisodeId

ACK_VARIABLE: Final = "TRIOCOLLECT_ACK_FD"  # a descriptor that gets a line per row after its fsync; for tests
SYNC_EVERY_S: Final = 1.0


async def in_a_thread(work: Callable[[], None]) -> None:
    """The ordinary Blocking. Simulated time needs another: its clock would run on while a thread works."""
    await trio.to_thread.run_sync(work)


class Sinks:
    """The output and the failures sidecar of one run."""

    def __init__(self, output: AppendFile, failures: AppendFile, *, ack_fd: int | None = None) -> None:
        self.output: Final = output
        self.failures: Final = failures
        self._ack_fd: Final = ack_fd
        self._unacknowledged: list[EpisodeId] = []
        self._something_new = trio.Event()
        self._beside: Callable[[], None] | None = None
        self._syncing: Final = threading.Lock()

    def sync_beside(self, sync: Callable[[], None]) -> None:
        """Another file to be made durable whenever these are."""
        self._beside = sync

    def something_new(self) -> None:
        """There is something to make durable."""
        self._something_new.set()

    def append_result(self, line: bytes, episode: EpisodeId) -> None:
        """Write a success line, its newline included. Raises StorageError; then nothing of it is there."""
        self._append(self.output, line, episode)

    def append_failure(self, line: bytes, episode: EpisodeId) -> None:
        """Write a sidecar line, its newline included. Raises StorageError; then nothing of it is there."""
        self._append(self.failures, line, episode)

    def _append(self, file: AppendFile, line: bytes, episode: EpisodeId) -> None:
        file.append(line)
        if self._ack_fd is not None:
            self._unacknowledged.append(episode)
        self.something_new()

    def confirm(self) -> None:
        """Raise StorageError when somebody removed, replaced or cut one of the files meanwhile."""
        self.output.confirm()
        self.failures.confirm()

    def sync(self) -> None:
        """Make everything appended so far durable, then acknowledge it. May block for long.

        Two may ask at once, in threads: each returns when what it saw is durable, whoever synced it.
        """
        with self._syncing:
            durable, self._unacknowledged = self._unacknowledged, []
            for file in (self.output, self.failures):
                if file.unsynced:
                    file.sync()
            if self._beside is not None:
                self._beside()
            if self._ack_fd is not None and durable:
                os.write(self._ack_fd, "".join(f"{episode.capture_key}\n" for episode in durable).encode())

    async def keep_synced(self, blocking: Blocking) -> None:
        """A service: sync at most once a second, for as long as the run goes on."""
        while True:
            await self._something_new.wait()
            self._something_new = trio.Event()
            await trio.sleep(SYNC_EVERY_S)
            self.confirm()  # not in a thread: nothing may be appended between looking and comparing
            await blocking(self.sync)

    def close(self) -> None:
        """Let go of both files; the output's lock goes with it."""
        self.failures.close()
        self.output.close()
