"""What the dispatch log of earlier runs shows: how far each rollout's attempts went, and what is lost."""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from attrs import Factory, evolve, field, frozen

from triocollect.checkpoint.kept_by_kernel import term_of
from triocollect.durable import open_file, unreadable
from triocollect.errors import StorageError
from triocollect.protocol.manifests import Dispatched, DispatchHeader
from triocollect.protocol.values import NOT_JSON
from triocollect.records.findings import Findings
from triocollect.records.lines import Line, Lines

_MOST_LINE_BYTES: Final = 1 << 20
_MOST_HEADER_BYTES: Final = 1 << 16
_NONE: Final[Mapping[str, int]] = MappingProxyType({})
_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})

_header: Final = msgspec.json.Decoder(DispatchHeader)
_line: Final = msgspec.json.Decoder(Dispatched)


@frozen
class Sent:
    """What the log shows of earlier runs.

    `attempts`: the highest sent or installed of each rollout that was asked for, `answered`: the highest that
    ended by an answer of which no other file tells. Any rollout, also one that is not named, may have been
    sent at attempts below `floor`, and starts at `start` at the lowest: `floor`, or more where attempts
    may have been used by another output alone. `used`: the highest of all attempts, also of those whose lines
    are gone. Not `complete` (no log, or none
    that can be trusted): nothing is restored unless every participant says that it has served nothing, and
    attempts start above everything that the other files show, see `above`. One that was there and cannot be
    trusted was of a run that may have sent any row.
    """

    header: DispatchHeader | None
    attempts: Mapping[str, int]
    floor: int
    complete: bool
    faults: tuple[str, ...] = ()
    answered: Mapping[str, int] = _NONE
    start: int = field(default=Factory(lambda self: self.floor, takes_self=True))
    used: int = -1
    senders: Mapping[str, str] = _NOBODY  # the output whose the highest attempt is, where not the header's

    def next_attempt(self, rollout_id: str, shown: int = -1) -> int:
        """The attempt to go on as; `shown`: the rollout's highest in the other files."""
        return max(self.start, 1 + max(shown, self.attempts.get(rollout_id, -1)))

    def above(self, shown: int) -> "Sent":
        """The same, knowing the highest attempt of any rollout in the other files (-1: none)."""
        floor = max(self.floor, shown + 1)
        return self if self.complete else evolve(self, floor=floor, start=max(self.start, floor))

    def beside(self, output: str) -> "Sent":
        """The same for the run of that output: what finished in another one may have no line here either."""
        if self.header is None or self.header.output in {None, output}:
            return self
        return evolve(self, start=max(self.start, self.header.reserved + 1))

    def of_others(self, output: str) -> dict[str, str]:
        """The rollouts whose highest attempt another output has sent, and which."""
        writer = None if self.header is None else self.header.output
        named = self.senders if writer in {None, output} else self.attempts
        senders = ((rollout_id, self.senders.get(rollout_id, writer)) for rollout_id in named)
        return {
            rollout_id: sender for rollout_id, sender in senders if sender is not None and sender != output
        }


NOTHING_SENT: Final = Sent(None, {}, 0, complete=False)


def read_header(path: Path) -> DispatchHeader | None:
    """The first line alone; None where it cannot be read."""
    try:
        with open_file(path) as file:
            return _header.decode(file.read(_MOST_HEADER_BYTES).partition(b"\n")[0])
    except (OSError, *NOT_JSON):
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
        return NOTHING_SENT
    return scan.found(term_of(path.parent) if boot is None else boot)


class _Scan:
    """What the lines say, one after the other."""

    def __init__(self, path: Path, keep: Callable[[str], bool]) -> None:
        self.attempts: Final[dict[str, int]] = {}
        self._answered: Final[dict[str, int]] = {}
        self._senders: Final[dict[str, str]] = {}
        self._keep: Final = keep
        self._header: DispatchHeader | None = None
        self._used = -1
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
        except NOT_JSON as error:
            self._damaged.add(line, f"damaged: {error}")

    def take_torn(self, tail: bytes) -> None:
        """What stands behind the last newline: half a line was never sent, a whole one may have been."""
        with contextlib.suppress(*NOT_JSON):
            self._add(_line.decode(tail))

    def _add(self, sent: Dispatched) -> None:
        self._used = max(self._used, sent.attempt)
        if self._keep(sent.rollout_id):
            if sent.attempt >= self.attempts.get(sent.rollout_id, -1):
                self._senders.pop(sent.rollout_id, None)
                if sent.output is not None:
                    self._senders[sent.rollout_id] = sent.output
            for known in (self.attempts, self._answered) if sent.answered else (self.attempts,):
                known[sent.rollout_id] = max(sent.attempt, known.get(sent.rollout_id, -1))

    def lost(self, *faults: str) -> Sent:
        """The log was there, and nobody knows what it said beyond what could be read."""
        floor = 1 + max([0, *self.attempts.values()])
        return Sent(None, self.attempts, floor, complete=False, faults=faults, answered=self._answered)

    def found(self, boot: str) -> Sent:
        header, faults = self._header, tuple(self._damaged.words())
        if header is None:
            return self.lost(*faults, f"{self._damaged.path} has no header, so what was sent is not known")
        lost = self._damaged.count > 0 or header.boot not in (None, boot)
        floor = max(header.floor, header.reserved + 1) if lost else header.floor
        return Sent(
            header,
            self.attempts,
            floor,
            complete=True,
            faults=faults,
            answered=self._answered,
            start=max(floor, header.start),
            used=max(self._used, header.used),
            senders=self._senders,
        )
