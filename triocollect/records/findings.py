"""What does not count in a file, and the keys of what does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from triocollect.protocol.ids import MAX_INDEX, RowKey
from triocollect.records.lines import Line

_FINDINGS_KEPT: Final = 20


class Finding(msgspec.Struct, frozen=True):
    """Something in a file that does not count. `line` from 1, `offset` in bytes from 0."""

    path: str
    line: int
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.line} (byte {self.offset}): {self.what}"


class Findings:
    """The first few findings of a scan and the number of all: a broken file must not fill the memory."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.first: Final[list[Finding]] = []
        self.count = 0

    def add(self, line: Line, what: str) -> None:
        """Count it, and keep it while there is room."""
        self.count += 1
        if len(self.first) < _FINDINGS_KEPT:
            self.first.append(Finding(str(self.path), line.number, line.offset, what))

    def words(self) -> list[str]:
        """A sentence for each that was kept, and one for the rest."""
        rest = self.count - len(self.first)
        return [str(finding) for finding in self.first] + (
            [f"… and {rest} more in {self.path}"] if rest else []
        )


class KeySet:
    """A set of row keys at about 80 bytes each (a set of pairs takes three times that)."""

    def __init__(self) -> None:
        self._packed: Final[set[int]] = set()

    def add(self, key: RowKey) -> bool:
        """True when it was not there."""
        before = len(self._packed)
        self._packed.add(key.task * MAX_INDEX + key.rollout)
        return len(self._packed) > before

    def update(self, other: "KeySet") -> None:
        """Add all of another set."""
        for key in other:
            self.add(key)

    def discard(self, key: RowKey) -> None:
        """Take it out, if it is there."""
        self._packed.discard(key.task * MAX_INDEX + key.rollout)

    def __contains__(self, key: RowKey) -> bool:
        return key.task * MAX_INDEX + key.rollout in self._packed

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[RowKey]:
        return (RowKey(*divmod(packed, MAX_INDEX)) for packed in self._packed)

    def lowest(self, most: int) -> list[RowKey]:
        """The first few in order."""
        return [RowKey(*divmod(packed, MAX_INDEX)) for packed in sorted(self._packed)[:most]]
