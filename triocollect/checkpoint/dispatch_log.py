"""Which attempts were ever sent, over all runs of a directory: `dispatched.jsonl`.

A line is with the kernel before its attempt is sent, which survives a kill of the process. Against a cut of
the power stands the header: a higher `reserved` is durable before any attempt above the old one is sent, so
after a death of the machine attempts start above it. The file is replaced whole, at each start and whenever
`reserved` is raised (seldom: by several at once), so that header and lines are always those of one instant.
"""

import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from triocollect.checkpoint.kept_by_kernel import term_of
from triocollect.checkpoint.names import MODE
from triocollect.durable import AppendFile, Draft, open_append
from triocollect.errors import StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Dispatched, DispatchHeader

_AHEAD: Final = 4  # reserved beyond what a run starts with: enough for its retries
_COPY_BYTES: Final = 1 << 20
_NONE: Final[Mapping[str, int]] = MappingProxyType({})
_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


class DispatchLog:
    """The log of the run that goes on. One task appends; `sync` may be called in a thread meanwhile."""

    def __init__(self, path: Path, file: AppendFile, header: DispatchHeader) -> None:
        """See `start_dispatched`."""
        self.path: Final = path
        self._file = file
        self._header = header
        self._used = header.reserved - _AHEAD - 1  # the highest attempt of all, so far
        self._swapping: Final = threading.Lock()  # a file is not closed while it is synced
        self._closed = False
        self._idle: Final[set[bytes]] = set()  # lines of attempts that were sent and ran nowhere

    @property
    def header(self) -> DispatchHeader:
        """As it is on disk."""
        return self._header

    @property
    def unsynced(self) -> bool:
        """Whether a cut of the power would lose lines."""
        return self._file.unsynced

    def append(self, episodes: Iterable[EpisodeId]) -> None:
        """Write that these are sent or installed now. Raises StorageError; then they must not be.

        An attempt above `reserved` raises it first, which waits for the disk: `reserve` in time avoids that.
        """
        lines = []
        for episode in episodes:
            if episode.attempt > self._header.reserved:
                self.reserve(episode.attempt)
            self._used = max(self._used, episode.attempt)
            lines.append(_encoded(episode.rollout_id, episode.attempt))
        if lines:
            self._file.append(b"".join(lines))
            self._idle.difference_update(lines)

    def nothing_ran(self, episode: EpisodeId) -> None:
        """Its server was not reached, or says so: the attempt is free; a clean end leaves its line out."""
        self._idle.add(_encoded(episode.rollout_id, episode.attempt))

    def answered(self, episode: EpisodeId) -> None:
        """Write that it has ended by an answer of which no other file tells. Raises StorageError."""
        self._file.append(_encoded(episode.rollout_id, episode.attempt, answered=True))

    def reserve(self, attempt: int) -> None:
        """Make it durable that attempts up to this one, and a few more, may be sent. Not beside `append`.

        Raises StorageError; nothing is reserved then.
        """
        self._rewrite(msgspec.structs.replace(self._header, reserved=attempt + _AHEAD))

    def sync(self) -> None:
        """Make everything appended so far durable; nothing once it is closed. May block for long."""
        with self._swapping:
            if self._file.unsynced and not self._closed:
                self._file.sync()

    def end(self) -> None:
        """The run has ended and all is said: the next one, on whatever machine, can trust every line.

        Nothing that was reserved and not used is: another output goes on right above what was.
        """
        try:
            self._rewrite(msgspec.structs.replace(self._header, boot=None, reserved=max(self._used, 0)))
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file as it is; again does nothing."""
        if not self._closed:
            self._closed = True
            self._file.close()

    def _rewrite(self, header: DispatchHeader) -> None:
        draft = Draft(self.path, mode=MODE)
        try:
            draft.write(msgspec.json.encode(header) + b"\n")
            _copy_lines(self.path, draft, self._idle if header.boot is None else frozenset())
            draft.flush()
            new = AppendFile(self.path, descriptor=open_append(draft.draft_path))
        except OSError as error:
            draft.discard()
            raise StorageError(
                f"cannot rewrite {self.path}: {error.strerror or error}", path=str(self.path)
            ) from error
        except BaseException:
            draft.discard()
            raise
        try:
            draft.commit()
        except BaseException:
            moved = not draft.draft_path.exists()
            self._take_over(new) if moved else new.close()
            draft.discard()
            raise
        self._take_over(new)
        self._header = header

    def _take_over(self, new: AppendFile) -> None:
        """From here on lines go to the file that bears the name now."""
        with self._swapping:
            self._file.close()
            self._file = new


def start_dispatched(  # noqa: PLR0913  # what a log begins with, each a mapping by rollout
    path: Path,
    header: DispatchHeader,
    attempts: Mapping[str, int],
    answered: Mapping[str, int] = _NONE,
    senders: Mapping[str, str] = _NOBODY,
    *,
    boot: str | None = None,
) -> DispatchLog:
    """Replace the log by one that goes on from here. Raises StorageError; the old one stands then.

    `attempts`: the highest of every unfinished rollout, of all files and runs; `answered`: see `Sent`,
    `senders`: other outputs that have sent them. Of
    `header` count run, epoch, sequence, output, floor, start and used (those of `Sent`); the rest follows.
    """
    used = max(header.used, *attempts.values(), -1)
    reserved = max(header.floor, header.start, used + 1) + _AHEAD
    since = term_of(path.parent) if boot is None else boot
    header = msgspec.structs.replace(header, used=used, reserved=reserved, boot=since)
    draft = Draft(path, mode=MODE)
    try:
        draft.write(msgspec.json.encode(header) + b"\n")
        for rollout_id, attempt in attempts.items():
            ended, sender = answered.get(rollout_id) == attempt, senders.get(rollout_id)
            draft.write(_encoded(rollout_id, attempt, answered=ended, output=sender))
        for rollout_id, attempt in answered.items():
            if attempts.get(rollout_id) != attempt:
                draft.write(_encoded(rollout_id, attempt, answered=True))
        draft.commit()
    except BaseException:
        draft.discard()
        raise
    return DispatchLog(path, AppendFile(path, mode=MODE), header)


def _encoded(rollout_id: str, attempt: int, *, answered: bool = False, output: str | None = None) -> bytes:
    return msgspec.json.encode(Dispatched(rollout_id, attempt, answered, output)) + b"\n"


def _copy_lines(path: Path, draft: Draft, but: Collection[bytes]) -> None:
    """Everything behind the first line, but for these lines."""
    with path.open("rb") as file:
        file.readline()
        while lines := file.readlines(_COPY_BYTES):
            draft.write(b"".join([line for line in lines if line not in but]))
