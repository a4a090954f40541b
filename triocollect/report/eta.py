"""How long a run still takes, from the rows that finished and the ages of those that run. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from random import Random

from triocollect.metrics.spread import mean


class Sample:
    """A fair sample of at most `most` of all values seen, in bounded memory (Vitter 1985, algorithm R)."""

    __slots__ = ("_most", "_random", "seen", "values")

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._random = Random(0).random  # noqa: S311  # no secret: it only picks what to keep
        self.seen = 0
        self.values: list[float] = []

    def add(self, value: float) -> None:
        """Take a value in; it may push out another."""
        self.seen += 1
        if self.seen <= self._most:
            self.values.append(value)
        elif (place := int(self._random() * self.seen)) < self._most:
            self.values[place] = value


def eta(*, queued: int, ages: Sequence[float], durations: Sequence[float], width: int) -> float | None:
    """Seconds until the last row ends; None while nothing has finished to judge by.

    `queued` rows have not started, `ages` has the seconds of each running one, `durations` those of finished
    ones (a sample), `width` is how many run at once. A running row is expected to end when the median of the
    finished rows that took longer than its age did; one that outlived them all gets the overall median again.
    What remains is shared by `width`, and never shorter than the longest single row.
    """
    if not queued and not ages:
        return 0.0
    if not durations:
        return None
    ordered = sorted(durations)
    remaining = [_remaining(age, ordered) for age in ages]
    work = queued * mean(ordered) + sum(remaining)
    return max(work / max(width, 1), max(remaining, default=0.0))


def _remaining(age: float, ordered: Sequence[float]) -> float:
    longer = bisect_right(ordered, age)
    if longer == len(ordered):
        return ordered[len(ordered) // 2]
    return ordered[(longer + len(ordered)) // 2] - age
