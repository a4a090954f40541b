"""The numbers that name a row: its task index and its rollout index. Pure."""

from array import array
from hashlib import sha256
from typing import Final

from triocollect.errors import UsageError
from triocollect.protocol.ids import RowKey
from triocollect.protocol.values import Json
from triocollect.rows.codec import is_integer

TASK_INDEX: Final = "_ng_task_index"
ROLLOUT_INDEX: Final = "_ng_rollout_index"

_HASH_BYTES: Final = 1 << 14
_KEPT_BYTES: Final = 16  # of a digest; 128 bits: no two lines of any real file share them


class TaskNumbers:
    """Task indices by the text of the line: equal lines are one task, numbered by first appearance.

    The newline does not count, so that an equal last line without one is no task of its own; with `gym` it
    does (the numbering of Gym 0.7.0). Keeps a digest per task and not the text.
    """

    def __init__(self, *, gym: bool) -> None:
        self._gym: Final = gym
        self._index_of: Final[dict[int, int]] = {}
        self._digests, self._unhashed = sha256(), bytearray()

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
        identity = int.from_bytes(digest[:_KEPT_BYTES], "little")
        return self._index_of.setdefault(identity, len(self._index_of))

    @property
    def of_all(self) -> str:
        """Hex SHA-256 over the digests of all lines: what the whole input is."""
        self._hash()
        return self._digests.hexdigest()

    def _hash(self) -> None:
        self._digests.update(self._unhashed)
        self._unhashed.clear()


class RolloutNumbers:
    """Rollout indices: each task's rows are counted from 0, whichever line they come from.

    Automatic task indices are dense and counted in arrays; the dict holds indices from the data that lie
    beyond them. Where the two meet they are one task, as in Gym 0.7.0.
    """

    def __init__(self) -> None:
        self._dense, self._lines = array("Q"), array("Q")
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
    """`_ng_task_index` of a row that has one. Raises UsageError unless it is an integer of 0 or more."""
    if not is_integer(value) or not 0 <= value < 1 << 63:
        raise UsageError(f"{TASK_INDEX} must be an integer of 0 or more, and is {value!r:.60}")
    return value
