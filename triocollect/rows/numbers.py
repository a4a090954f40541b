"""The numbers that name a row: its task index and its rollout index. Pure."""

from array import array
from hashlib import sha256
from struct import Struct
from typing import Final

from triocollect.errors import UsageError
from triocollect.protocol.ids import MAX_INDEX, RowKey
from triocollect.protocol.values import Json
from triocollect.rows.codec import is_integer

TASK_INDEX: Final = "_ng_task_index"
ROLLOUT_INDEX: Final = "_ng_rollout_index"

_HASH_BYTES: Final = 1 << 14
_FIRST_SLOTS: Final = 1 << 12
_read_words: Final = Struct("<QQ").unpack_from  # 128 bits of a digest: no two lines of any file share them


class TaskNumbers:
    """Task indices by the text of the line: equal lines are one task, numbered by first appearance.

    The newline does not count, so that an equal last line without one is no task of its own; with `gym` it
    does (the numbering of Gym 0.7.0).
    """

    def __init__(self, *, gym: bool) -> None:
        self._gym: Final = gym
        self._digests, self._unhashed = sha256(), bytearray()
        # A hash table in arrays: 24 to 48 bytes per task, where a dict of integers takes over 120, and a
        # file may hold tens of millions. A slot holds 1 + a task index; 0 is free.
        self._low, self._high = array("Q"), array("Q")  # by task index
        self._slots, self._mask = array("I", bytes(4 * _FIRST_SLOTS)), _FIRST_SLOTS - 1

    def digest(self, text: bytes) -> bytes:
        """The identity of a line. Each line of the file is passed once, in order, for `of_all`."""
        if not self._gym and not text.endswith(b"\n"):
            text += b"\n"
        digest = sha256(text).digest()
        self._unhashed += digest
        if len(self._unhashed) >= _HASH_BYTES:
            self._hash()
        return digest

    def index(self, digest: bytes) -> int:
        """The task index of a line with no index of its own."""
        words: tuple[int, int] = _read_words(digest)
        low, high = words
        lows, slots, mask = self._low, self._slots, self._mask
        slot = low & mask
        while taken := slots[slot]:
            if lows[taken - 1] == low and self._high[taken - 1] == high:
                return taken - 1
            slot = (slot + 1) & mask
        index = len(lows)
        lows.append(low)
        self._high.append(high)
        slots[slot] = index + 1
        if 2 * index > mask:
            self._grow()
        return index

    @property
    def of_all(self) -> str:
        """Hex SHA-256 over the digests of all lines: what the whole input is."""
        self._hash()
        return self._digests.hexdigest()

    def _grow(self) -> None:
        slots = array("I", bytes(4 * 4 * len(self._slots)))
        mask = len(slots) - 1
        for count, low in enumerate(self._low, 1):
            slot = low & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = count
        self._slots, self._mask = slots, mask

    def _hash(self) -> None:
        self._digests.update(self._unhashed)
        self._unhashed.clear()


class RolloutNumbers:
    """Rollout indices: each task's rows are counted from 0, whichever line they come from.

    Automatic task indices are dense and counted in arrays; the dict holds indices from the data that lie
    beyond them. Where the two meet they are one task, as in Gym 0.7.0.
    """

    def __init__(self) -> None:
        self._dense, self._lines = array("I"), array("Q")
        self._beyond: Final[dict[int, tuple[int, int]]] = {}

    def next(self, task: int, line: int) -> int:
        """The next rollout index of a task, for a row made of this line."""
        if task < len(self._dense):
            rollout = self._dense[task]
            self._dense[task] = rollout + 1
            return rollout
        rollout, first = self._beyond.pop(task, (0, line)) if self._beyond else (0, line)
        if task == len(self._dense):
            self._dense.append(rollout + 1)
            self._lines.append(first)
        else:
            self._beyond[task] = (rollout + 1, first)
        return rollout

    def __contains__(self, key: RowKey) -> bool:
        """Whether this row was handed out."""
        if key.task < len(self._dense):
            return key.rollout < self._dense[key.task]
        return key.rollout < self._beyond.get(key.task, (0, 0))[0]

    def first_line(self, task: int) -> int:
        """The line that this task appeared on first."""
        return self._lines[task] if task < len(self._lines) else self._beyond[task][1]


def preset_task_index(value: Json) -> int:
    """`_ng_task_index` of a row that has one. Raises UsageError unless it is an integer below MAX_INDEX."""
    if not is_integer(value) or not 0 <= value < MAX_INDEX:
        raise UsageError(f"{TASK_INDEX} must be an integer from 0 to {MAX_INDEX - 1}, and is {value!r:.60}")
    return value
