"""Which attempts were ever sent, over all runs of a directory: `dispatched.jsonl`.

A line is with the kernel before its attempt is sent, which survives a kill of the process. Against a cut of
the power stands the header: a higher `reserved` is durable before any attempt above the old one is sent, so
after a death of the machine attempts start above it. The file is replaced whole, at each start and whenever
`reserved` is raised (seldom: by several at once), so that header and lines are always those of one instant.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from attrs import evolve, frozen

from triocollect.checkpoint.kept_by_kernel import term_of
from triocollect.checkpoint.names import MODE
from triocollect.durable import AppendFile, Draft, open_append, open_file, unreadable
from triocollect.errors import StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Dispatched, DispatchHeader
from triocollect.records.findings import Findings
from triocollect.records.lines import Line, Lines

_AHEAD: Final = 4  # reserved beyond what a run starts with: enough for its retries
_COPY_BYTES: Final = 1 << 20
_MOST_LINE_BYTES: Final = 1 << 20
_MOST_HEADER_BYTES: Final = 1 << 16

_header: Final = msgspec.json.Decoder(DispatchHeader)
_line: Final = msgspec.json.Decoder(Dispatched)


@frozen
class Sent:
    """What the log shows of earlier runs.

    `attempts`: the highest sent or installed of each rollout that was asked for. Any rollout, also one that
    is not named, starts at `floor` at the lowest; above 0, one that is not named may have been sent. Not
    `complete` (no log, or none that can be trusted): nothing is restored unless every participant says that
    it has served nothing, and attempts start above everything that the other files show, see `above`. One
    that was there and cannot be trusted was of a run that may have sent any row.
    """

    header: DispatchHeader | None
    attempts: Mapping[str, int]
    floor: int
    complete: bool
    faults: tuple[str, ...] = ()

    def next_attempt(self, rollout_id: str, shown: int = -1) -> int:
        """The attempt to go on as; `shown`: the rollout's highest in the other files."""
        return max(self.floor, 1 + max(shown, self.attempts.get(rollout_id, -1)))

    def above(self, shown: int) -> "Sent":
        """The same, knowing the highest attempt of any rollout in the other files (-1: none)."""
        return self if self.complete else evolve(self, floor=max(self.floor, shown + 1))


def read_header(path: Path) -> DispatchHeader | None:
    """The first line alone; None where it cannot be read."""
    try:
        with open_file(path) as file:
            return _header.decode(file.read(_MOST_HEADER_BYTES).partition(b"\n")[0])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def read_dispatched(
    path: Path, *, keep: Callable[[str], bool] = lambda _: True, boot: str | None = None
) -> Sent:
    """Read the log of earlier runs; memory follows the rollouts to `keep`. Raises nothing.

    `boot`: see `DispatchHeader`; None: the present one.
    """
    scan = _Scan(path, keep)
    lines = Lines(path, max_line_bytes=_MOST_LINE_BYTES)
    try:
        for line in lines:
            scan.take(line)
        if lines.size > lines.whole:
            with open_file(path) as file:
                file.seek(lines.whole)
                scan.take_torn(file.read(_MOST_LINE_BYTES))
    except StorageError as error:
        return scan.lost(str(error))
    except OSError as error:
        return scan.lost(str(unreadable(path, error)))
    if not os.path.lexists(path):
        return Sent(None, {}, 0, complete=False)
    return scan.found(term_of(path.parent) if boot is None else boot)


class _Scan:
    """What the lines say, one after the other."""

    def __init__(self, path: Path, keep: Callable[[str], bool]) -> None:
        self.attempts: Final[dict[str, int]] = {}
        self._keep: Final = keep
        self._header: DispatchHeader | None = None
        self._damaged: Final = Findings(path)

    def take(self, line: Line) -> None:
        """Any whole line."""
        try:
            if line.data is None:
                self._damaged.add(line, "no line of ours")
            elif line.number == 1:
                self._header = _header.decode(line.data)
            else:
                self._add(_line.decode(line.data))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._damaged.add(line, f"damaged: {error}")

    def take_torn(self, tail: bytes) -> None:
        """What stands behind the last newline: half a line was never sent, a whole one may have been."""
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._add(_line.decode(tail))

    def _add(self, sent: Dispatched) -> None:
        if self._keep(sent.rollout_id):
            self.attempts[sent.rollout_id] = max(sent.attempt, self.attempts.get(sent.rollout_id, -1))

    def lost(self, *faults: str) -> Sent:
        """The log was there, and nobody knows what it said beyond what could be read."""
        floor = 1 + max([0, *self.attempts.values()])
        return Sent(None, self.attempts, floor, complete=False, faults=faults)

    def found(self, boot: str) -> Sent:
        header, faults = self._header, tuple(self._damaged.words())
        if header is None:
            return self.lost(*faults, f"{self._damaged.path} has no header, so what was sent is not known")
        lost = self._damaged.count > 0 or header.boot not in (None, boot)
        floor = max(header.floor, header.reserved + 1) if lost else header.floor
        return Sent(header, self.attempts, floor, complete=True, faults=faults)


class DispatchLog:
    """The log of the run that goes on. One task appends; `sync` may be called in a thread meanwhile."""

    def __init__(self, path: Path, file: AppendFile, header: DispatchHeader) -> None:
        """See `start_dispatched`."""
        self.path: Final = path
        self._file = file
        self._header = header
        self._swapping: Final = threading.Lock()  # a file is not closed while it is synced

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
            lines.append(msgspec.json.encode(Dispatched(episode.rollout_id, episode.attempt)) + b"\n")
        if lines:
            self._file.append(b"".join(lines))

    def reserve(self, attempt: int) -> None:
        """Make it durable that attempts up to this one, and a few more, may be sent. Not beside `append`.

        Raises StorageError; nothing is reserved then.
        """
        self._rewrite(msgspec.structs.replace(self._header, reserved=attempt + _AHEAD))

    def sync(self) -> None:
        """Make everything appended so far durable. May block for long."""
        with self._swapping:
            if self._file.unsynced:
                self._file.sync()

    def end(self) -> None:
        """The run has ended and all is said: the next one, on whatever machine, can trust every line."""
        try:
            self._rewrite(msgspec.structs.replace(self._header, boot=None))
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file as it is."""
        self._file.close()

    def _rewrite(self, header: DispatchHeader) -> None:
        draft = Draft(self.path, mode=MODE)
        try:
            draft.write(msgspec.json.encode(header) + b"\n")
            _copy_lines(self.path, draft)
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


def start_dispatched(
    path: Path,
    header: DispatchHeader,
    attempts: Mapping[str, int],
    *,
    boot: str | None = None,
) -> DispatchLog:
    """Replace the log by one that goes on from here. Raises StorageError; the old one stands then.

    `attempts`: the highest of every unfinished rollout, of all files and runs. Of `header` count run, epoch,
    sequence and floor (that of `Sent`); what is reserved follows from the rest.
    """
    highest = max(header.floor, max(attempts.values(), default=-1) + 1)
    header = msgspec.structs.replace(
        header, reserved=highest + _AHEAD, boot=term_of(path.parent) if boot is None else boot
    )
    draft = Draft(path, mode=MODE)
    try:
        draft.write(msgspec.json.encode(header) + b"\n")
        for rollout_id, attempt in attempts.items():
            draft.write(msgspec.json.encode(Dispatched(rollout_id, attempt)) + b"\n")
        draft.commit()
    except BaseException:
        draft.discard()
        raise
    return DispatchLog(path, AppendFile(path, mode=MODE), header)


def _copy_lines(path: Path, draft: Draft) -> None:
    """Everything behind the first line."""
    with path.open("rb") as file:
        file.readline()
        while chunk := file.read(_COPY_BYTES):
            draft.write(chunk)
