"""Which states a cut of the power can leave, at one point of a log.

Of the names that are not sure any set may be there. Of a file whose end is not sure: nothing of that, all,
the first writes, the length without the bytes, half of the last write, or a hole.
"""

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from attrs import define, field, frozen

from fuzz.disk.storage import Cut, Disk, Names, Write, put, walk, written
from fuzz.scratch import ANY

ALL_OF: Final = 4  # names whose every set is tried
MOST: Final = 8  # of more than that, and of writes, these last ones are told apart
_DIGEST_BYTES: Final = 16
_Layout: TypeAlias = tuple[tuple[str, bytes, int], ...]  # paths, as bytes too, and what is there, in order


@frozen
class State:
    """What is there: bytes by path, None for a folder. `lost`: in words, what a cut took, if anything."""

    files: dict[str, bytes | None]
    digest: bytes
    lost: str


@frozen
class _Tail:
    """What became of a file's end that was not sure."""

    what: str
    data: bytes


@define
class Cuts:
    """All states at one point after the other, with dice for those that are too many."""

    dice: random.Random
    at_random: int = 12
    _digests: dict[bytes, bytes] = field(factory=dict)
    _layouts: dict[tuple[int, ...], _Layout] = field(factory=dict)
    _shape: int = -1  # of the disk that the layouts are of

    def states(self, disk: Disk) -> Iterator[State]:
        """Each once, named by the first way to it."""
        told = set[bytes]()
        sure = {node: self._digest(data) for node, data in disk.files.items()}
        for names, ends in self._ways(disk):
            layout = self._layout(disk, names)
            digests = sure | {node: self._digest(end.data) for node, end in ends.items()}
            parts = [one for _, path, node in layout for one in (path, digests.get(node, b"/"))]
            digest = hashlib.blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).digest()
            if digest not in told:
                told.add(digest)
                files = {path: _bytes(disk, node, ends) for path, _, node in layout}
                yield State(files, digest, _lost(disk, names, ends))

    def _ways(self, disk: Disk) -> Iterator[tuple[Sequence[Names], dict[int, _Tail]]]:
        """The names that are there and what became of ends; several may leave the same."""
        tails = {file: _tails(disk.files[file], changes) for file, changes in disk.data.items()}
        whole = {file: one[0] for file, one in tails.items()}
        gone = {file: one[1] for file, one in tails.items()}
        sets = list(_sets(disk.names, self.dice))
        for names in sets:
            yield names, whole
            yield names, gone
        for file, ends in tails.items():
            for end in ends[2:]:
                yield disk.names, whole | {file: end}
                yield disk.names, gone | {file: end}
                yield disk.names[:-1], whole | {file: end}
        for _ in range(self.at_random if tails and len(sets) > 1 else 0):
            ends = {file: self.dice.choice(one) for file, one in tails.items()}
            yield self.dice.choice(sets), ends

    def _layout(self, disk: Disk, names: Sequence[Names]) -> _Layout:
        """It stays the same from point to point, until the disk is sure of other names."""
        if self._shape != disk.shape:
            self._shape = disk.shape
            self._layouts.clear()
        key = tuple(map(id, names))
        known = self._layouts.get(key)
        if known is None:
            known = self._layouts[key] = _laid_out(disk, names)
        return known

    def _digest(self, data: bytes) -> bytes:
        known = self._digests.get(data)
        if known is None:
            known = self._digests[data] = hashlib.blake2b(
                ANY.sub(b"", data), digest_size=_DIGEST_BYTES
            ).digest()
        return known


def _laid_out(disk: Disk, names: Sequence[Names]) -> _Layout:
    """What these names, beside those that are sure, lead to."""
    folders, copied = dict(disk.folders), set[int]()
    for one in names:
        if one.folder not in copied:
            copied.add(one.folder)
            folders[one.folder] = dict(folders[one.folder])
        put(folders[one.folder], one)
    return tuple((path, path.encode(), node) for path, node in sorted(walk(folders)))


def _bytes(disk: Disk, node: int, ends: dict[int, _Tail]) -> bytes | None:
    """Of a file; None for a folder."""
    if (end := ends.get(node)) is not None:
        return end.data
    return disk.files.get(node)


def _lost(disk: Disk, names: Sequence[Names], ends: dict[int, _Tail]) -> str:
    ways = {one.what for one in ends.values()} - {"whole"}
    lost = [] if len(names) == len(disk.names) else ["names"]
    lost += sorted(ways) if len(ways) < 2 else ["several ends"]
    return " and ".join(lost)


def _tails(sure: bytes, changes: list[Write | Cut]) -> list[_Tail]:
    """All of the end, nothing of it, and what lies between."""
    now = written(sure, changes)
    tails = [_Tail("whole", now), _Tail("ends", sure)]
    steps = [written(sure, changes[:count]) for count in range(1, len(changes))][-MOST:]
    tails += [_Tail("last writes", one) for one in steps]
    added = len(now) - len(sure)
    if added > 0:
        tails.append(_Tail("bytes of ends", sure + bytes(added)))
    last = changes[-1]
    if isinstance(last, Write) and last.data:
        before, size = now[: -len(last.data)], len(last.data)
        tails.append(_Tail("half a write", before + last.data[: size // 2]))
        tails.append(_Tail("half the bytes", before + last.data[: size // 2] + bytes(size - size // 2)))
        tails.append(_Tail("bytes of a write", before + bytes(size)))
    tails += [_Tail("a hole", one) for one in _holes(sure, changes)]
    return tails


def _holes(sure: bytes, changes: list[Write | Cut]) -> Iterator[bytes]:
    """One write before the last is zeros, where all are writes."""
    if all(isinstance(one, Write) for one in changes):
        for nth in range(max(0, len(changes) - MOST), len(changes) - 1):
            holed = [*changes[:nth], Write(0, bytes(len(changes[nth].data))), *changes[nth + 1 :]]
            yield written(sure, holed)


def _sets(names: Sequence[Names], dice: random.Random) -> Iterator[Sequence[Names]]:
    """Of the changes that count every set, or as many as can be; of those in rubbish all, none or half."""
    counting = [one for one in names if not one.rubbish]
    rubbish = [one for one in names if one.rubbish]
    halves = [rubbish, [], rubbish[: len(rubbish) // 2]] if rubbish else [rubbish]
    for kept, below in itertools.product(_some(counting, dice), halves):
        chosen = {id(one) for one in (*kept, *below)}
        yield [one for one in names if id(one) in chosen]


def _some(names: Sequence[Names], dice: random.Random) -> Iterator[Sequence[Names]]:
    count = len(names)
    if count <= ALL_OF:
        for kept in itertools.product((True, False), repeat=count):
            yield list(itertools.compress(names, kept))
        return
    yield names
    for nth in range(max(0, count - MOST), count):
        yield names[:nth]
        yield [*names[:nth], *names[nth + 1 :]]
        yield [names[nth]]
    for _ in range(MOST):
        yield [one for one in names if dice.random() < 0.5]
    yield []
