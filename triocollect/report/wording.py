"""How numbers of a run are said, the same way live and at the end. Pure."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from msgspec import UnsetType

from triocollect.metrics import Interval

_PLAIN_BELOW: Final = 1e9
_DAY_S: Final = 86_400
_UNITS: Final = ((120, 1, "s"), (7200, 60, "min"), (2 * _DAY_S, 3600, "h"))


def clock_time(seconds: float) -> str:
    """`H:MM:SS`."""
    return str(timedelta(seconds=int(seconds)))


def span_of_time(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h`, `2 d`; never below 0."""
    seconds = max(0.0, seconds)
    for below, one, unit in _UNITS:
        if seconds < below:
            return f"{seconds / one:.0f} {unit}"
    return f"{seconds / _DAY_S:.0f} d"


def mean_with_interval(mean: float | None, interval: tuple[float, float] | None) -> str:
    """`0.512 [0.401, 0.623]`, for tables; a dash where there is nothing to average."""
    if mean is None:
        return "-"
    return _short(mean) if interval is None else f"{_short(mean)} {span(Interval(*interval))}"


def mean_in_words(mean: float | None, interval: tuple[float, float] | None) -> str:
    """`0.512 (95 %: [0.401, 0.623])`; a dash where there is nothing to average."""
    if mean is None or interval is None:
        return mean_with_interval(mean, None)
    return f"{_short(mean)} (95 %: {span(Interval(*interval))})"


def span(interval: Interval) -> str:
    """`[0.401, 0.623]`."""
    return f"[{_short(interval.low)}, {_short(interval.high)}]"


def _short(number: float) -> str:
    return f"{number:.3f}" if abs(number) < _PLAIN_BELOW else f"{number:.3e}"


def by_class(failures: Mapping[str, int]) -> str:
    """`agent_run_error 3, timeout_exceeded 1`, the most frequent first."""
    ranked = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count}" for name, count in ranked)


def rows(count: int) -> str:
    """`1 row`, `2 rows`."""
    return several(count, "row")


def several(count: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def calls_under_way(
    name: str, calls: int | UnsetType | None, cut: int | UnsetType | None, tokens: int | UnsetType | None
) -> str:
    """What becomes of the policy calls of a checkpoint, as the rest of a sentence; "" where none were."""
    if not isinstance(calls, int) or not calls:
        return ""
    if not isinstance(cut, int) or not isinstance(tokens, int) or not cut:
        return f"; {name}, made again: {calls}"
    again = f", {calls - cut} generated again" if calls > cut else ""
    return f"; {name}: {calls}, {cut} kept with {several(tokens, 'token')}{again}"
