"""Which states a cut of the power can leave, at one point of a log.

Of the names that are not sure any set may be there. Of a file whose end is not sure: nothing of that, all,
the first writes, the length without the bytes, half of the last write, or a hole.
"""

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import define, field, frozen

from fuzz.disk.storage import Cut, Disk, Names, Write, put, walk, written

ALL_OF: Final = 4  # names whose every set is tried
MOST: Final = 8  # of more than that, and of writes, these last ones are told apart
_DIGEST_BYTES: Final = 16


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

    def states(self, disk: Disk) -> Iterator[State]:
        """Each at least once."""
        tails = {file: _tails(disk.files[file], changes) for file, changes in disk.data.items()}
        whole = {file: one[0] for file, one in tails.items()}
        gone = {file: one[1] for file, one in tails.items()}
        sets = list(_sets(disk.names, self.dice))
        for names in sets:
            yield self._state(disk, names, whole)
            yield self._state(disk, names, gone)
        for file, ends in tails.items():
            for end in ends[2:]:
                yield self._state(disk, disk.names, whole | {file: end})
                yield self._state(disk, disk.names, gone | {file: end})
                yield self._state(disk, disk.names[:-1], whole | {file: end})
        for _ in range(self.at_random if tails and len(sets) > 1 else 0):
            ends = {file: self.dice.choice(one) for file, one in tails.items()}
            yield self._state(disk, self.dice.choice(sets), ends)

    def _state(self, disk: Disk, names: Sequence[Names], ends: dict[int, _Tail]) -> State:
        folders, copied = dict(disk.folders), set[int]()
        for one in names:
            if one.folder not in copied:
                copied.add(one.folder)
                folders[one.folder] = dict(folders[one.folder])
            put(folders[one.folder], one)
        files: dict[str, bytes | None] = {}
        told = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for path, node in sorted(walk(folders)):
            data = files[path] = (
                None if node in folders else ends[node].data if node in ends else disk.files[node]
            )
            told.update(path.encode())
            told.update(b"/" if data is None else self._digest(data))
        ways = {one.what for one in ends.values()} - {"whole"}
        lost = [] if len(names) == len(disk.names) else ["names"]
        lost += sorted(ways) if len(ways) < 2 else ["several ends"]
        return State(files, told.digest(), " and ".join(lost))

    def _digest(self, data: bytes) -> bytes:
        known = self._digests.get(data)
        if known is None:
            known = self._digests[data] = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
        return known


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
