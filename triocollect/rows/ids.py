"""Rollout ids that the data gives (`_ng_rollout_id`): each must name one rollout only. Pure."""

import re
from array import array
from collections.abc import Iterator
from typing import Final

from triocollect.errors import UsageError
from triocollect.protocol.ids import RowKey, rollout_id_fault
from triocollect.protocol.values import Json
from triocollect.rows.codec import name_of
from triocollect.rows.numbers import RolloutNumbers

ROLLOUT_ID: Final = "_ng_rollout_id"

_LIKE_AUTOMATIC: Final = re.compile(r"(0|[1-9][0-9]*)-(0|[1-9][0-9]*)")
_NAMED: Final = 20  # clashes, and lines of each, that are named one by one


def explicit_id(value: Json) -> str | None:
    """`_ng_rollout_id` of a row; null is none, as in Gym. Raises UsageError for one that names no rollout."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise UsageError(f"{ROLLOUT_ID} must be a string, and is {name_of(value)}")
    if (fault := rollout_id_fault(value)) is not None:
        raise UsageError(f"{ROLLOUT_ID}: {fault}")
    return value


class RolloutIds:
    """All ids that the rows of a file bring along. Memory follows the number of rows that do."""

    def __init__(self) -> None:
        self._line_of: Final[dict[str, int]] = {}
        self._tasks, self._rollouts = array("Q"), array("Q")  # of the rows that have an id
        self._repeated: Final[dict[str, list[int]]] = {}

    def add(self, rollout_id: str, key: RowKey, line: int) -> None:
        """The row `key`, made of `line`, has this id."""
        self._tasks.append(key.task)
        self._rollouts.append(key.rollout)
        if rollout_id not in self._line_of:
            self._line_of[rollout_id] = line
        elif rollout_id in self._repeated or len(self._repeated) < _NAMED:
            lines = self._repeated.setdefault(rollout_id, [self._line_of[rollout_id]])
            if line not in lines and len(lines) < _NAMED:
                lines.append(line)

    def clashes(self, rollouts: RolloutNumbers) -> Iterator[str]:
        """A sentence for each id that would name two rollouts, once all rows were added."""
        for rollout_id, lines in self._repeated.items():
            if len(lines) == 1:
                yield (
                    f"line {lines[0]}: {ROLLOUT_ID} {rollout_id!r} would name several rollouts, because "
                    "num_repeats or fan_out makes several of the line; leave it out there"
                )
            else:
                numbers = f"{', '.join(map(str, lines[:-1]))} and {lines[-1]}"
                yield f"lines {numbers} have the same {ROLLOUT_ID} {rollout_id!r}; each must have its own"
        yield from self._clashes_with_automatic(rollouts)

    def _clashes_with_automatic(self, rollouts: RolloutNumbers) -> Iterator[str]:
        # An id such as 3-0 is fine unless row 3-0 is there and goes by that name, having no id of its own.
        alike = {
            RowKey(int(match[1]), int(match[2])): line
            for rollout_id, line in self._line_of.items()
            if (match := _LIKE_AUTOMATIC.fullmatch(rollout_id))
        }
        alike = {key: line for key, line in alike.items() if key in rollouts}
        for key in zip(self._tasks, self._rollouts, strict=True):
            alike.pop(RowKey(*key), None)
        for key, line in list(alike.items())[:_NAMED]:
            other = rollouts.first_line(key.task)
            yield (
                f"lines {line} and {other}: {ROLLOUT_ID} '{key}' of line {line} is also the name of rollout "
                f"{key.rollout} of task {key.task}, which begins at line {other}; give it another one"
            )
