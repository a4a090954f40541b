"""The numbers of many records, kept as columns. Pure.

A reply of `/aggregate_metrics` holds exact medians and one line per rollout, so every number has to be kept;
kept as columns it costs eight bytes, and nothing else of a record is.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from triocollect.metrics.summary import as_index, as_number
from triocollect.protocol.values import Json, JsonObject

_MISSING: Final = math.nan
_NOT_MEASURED: Final = frozenset({"mask_sample", "response"})  # a flag, and the transcript


class Numbers:
    """Columns in the order in which their names were first seen; record i is the i-th one added."""

    def __init__(self) -> None:
        self.tasks = array("q")
        self.rollouts = array("q")
        self.usage: set[str] = set()  # the columns that come from `response.usage`
        self._columns: dict[str, array[float]] = {}
        self._whole: dict[str, bool] = {}  # only integers and booleans so far

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def names(self) -> Iterable[str]:
        """Column names."""
        return self._columns

    def add(self, record: JsonObject) -> None:
        """Keep the finite numbers and booleans of one record whose names have no leading underscore."""
        usage = _usage(record)
        for name, value in record.items():
            if not name.startswith("_") and name not in _NOT_MEASURED and name not in usage:
                self._put(name, value)
        for name, value in usage.items():
            if not name.startswith("_"):
                self.usage.add(name)
                self._put(name, value)
        self.tasks.append(as_index(record.get("_ng_task_index")))
        self.rollouts.append(as_index(record.get("_ng_rollout_index")))

    def of(self, name: str, records: Iterable[int]) -> list[float]:
        """The values that these records have in a column, in their order."""
        column = self._columns[name]
        end = len(column)
        return [value for i in records if i < end and (value := column[i]) == value]  # NaN: missing

    def record(self, i: int) -> Iterator[tuple[str, int | float]]:
        """The named numbers of one record, integers as such."""
        for name, column in self._columns.items():
            if i < len(column) and not math.isnan(value := column[i]):
                yield name, int(value) if self._whole[name] else value

    def _put(self, name: str, value: Json) -> None:
        if (number := as_number(value)) is not None:
            column = self._columns.setdefault(name, array("d"))
            column.extend([_MISSING] * (len(self.tasks) - len(column)))
            column.append(number)
            self._whole[name] = self._whole.get(name, True) and isinstance(value, int)


def by_index(indices: Sequence[int]) -> dict[int, list[int]]:
    """Index to the records that have it, indices ascending."""
    groups: dict[int, list[int]] = {}
    for i, index in enumerate(indices):
        groups.setdefault(index, []).append(i)
    return dict(sorted(groups.items()))


def _usage(record: JsonObject) -> JsonObject:
    response = record.get("response")
    usage = response.get("usage") if isinstance(response, dict) else None
    return usage if isinstance(usage, dict) else {}
