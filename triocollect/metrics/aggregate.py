"""Gym's `/aggregate_metrics` (Gym 0.7.0): statistics per task, over all, and per repeat. Pure."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from triocollect.metrics.numbers import Numbers, by_index
from triocollect.metrics.spread import deviation, mean, quantile, t_interval
from triocollect.metrics.summary import as_index
from triocollect.protocol.values import Json, JsonObject

_SAMPLE_AGENT: Final = "agent"  # the reply does not know which agent it is about
_KEPT_SEPARATE: Final = ("max", "min", "median", "p5", "p25", "p75", "p95")  # endings of what is no estimate


def aggregate(records: Iterable[JsonObject]) -> JsonObject:
    """The reply to these records, in any order. See `Aggregation`."""
    aggregation = Aggregation()
    for record in records:
        aggregation.add(record)
    return aggregation.reply()


class Aggregation:
    """Takes records in one by one; keeps eight bytes for each of their numbers.

    A statistic that is beyond every float is None.

    Records are taken as they come: who reads files leaves out damage and repeats. A record with `mask_sample`
    set is counted under `coverage/` and nowhere else.
    """

    def __init__(self) -> None:
        self._scored = Numbers()
        self._masked = 0
        self._tasks: set[int] = set()
        self._repeats: set[int] = set()

    def add(self, record: JsonObject) -> None:
        """Take one result record in."""
        self._tasks.add(as_index(record.get("_ng_task_index")))
        self._repeats.add(as_index(record.get("_ng_rollout_index")))
        if record.get("mask_sample"):
            self._masked += 1
        else:
            self._scored.add(record)

    def reply(self) -> JsonObject:
        """`group_level_metrics`, `agent_metrics`, `key_metrics`, `repeat_level_metrics`."""
        coverage = self._coverage()
        scored = self._scored
        if not len(scored):
            return _reply([], dict(coverage), dict(coverage), [])
        repeats = _repeat_level(scored)
        over_all = _describe(scored, range(len(scored)))
        over_all |= _across_repeats(repeats)
        over_all |= coverage
        over_all["num_repeats"] = len(self._repeats)
        key_metrics = {name: value for name, value in over_all.items() if name.startswith("mean/")}
        return _reply(_group_level(scored), over_all, key_metrics | coverage, repeats)

    def _coverage(self) -> JsonObject:
        """How much the other numbers rest on; nothing to say where nothing was masked."""
        if not self._masked:
            return {}
        measured = len(set(self._scored.tasks))
        return {
            "coverage/measured_rollouts": len(self._scored),
            "coverage/masked_rollouts": self._masked,
            "coverage/measured_tasks": measured,
            "coverage/fully_masked_tasks": len(self._tasks) - measured,
        }


def _reply(
    groups: list[JsonObject], over_all: JsonObject, key_metrics: JsonObject, repeats: list[JsonObject]
) -> JsonObject:
    return {
        "group_level_metrics": list[Json](groups),
        "agent_metrics": over_all,
        "key_metrics": key_metrics,
        "repeat_level_metrics": list[Json](repeats),
    }


def _describe(numbers: Numbers, records: range | list[int]) -> JsonObject:
    """`mean/x`, `max/x`, `min/x`, `median/x`, `std/x` of every column that these records have."""
    samples = {name: sorted(values) for name in numbers.names if (values := numbers.of(name, records))}
    # One value among several records has no spread that could be named; one record has none at all.
    spread = {n: v for n, v in samples.items() if len(v) > 1 or len(records) == 1}
    return _in_json(
        {
            **{f"mean/{name}": mean(values) for name, values in samples.items()},
            **{f"max/{name}": values[-1] for name, values in samples.items()},
            **{f"min/{name}": values[0] for name, values in samples.items()},
            **{f"median/{name}": quantile(values, 0.5) for name, values in samples.items()},
            **{f"std/{name}": deviation(values) for name, values in spread.items()},
        }
    )


def _in_json(statistics: Mapping[str, float]) -> JsonObject:
    """JSON has no infinity: None stands for what no float can hold."""
    return {name: value if math.isfinite(value) else None for name, value in statistics.items()}


def _group_level(numbers: Numbers) -> list[JsonObject]:
    groups: list[JsonObject] = []
    for task, records in by_index(numbers.tasks).items():
        group: JsonObject = {"_ng_task_index": task}
        group |= _describe(numbers, records)
        group["sample"] = {"agent_ref": {"name": _SAMPLE_AGENT}}
        group["num_rollouts"] = group["expected_num_rollouts"] = len(records)
        group["missing_num_rollouts"] = 0  # only records are known here, never what was expected
        group["reward_profile_completion_pct"] = 100.0
        group["rollout_infos"] = [
            _rollout_info(numbers, i) for i in sorted(records, key=numbers.rollouts.__getitem__)
        ]
        groups.append(group)
    return groups


def _rollout_info(numbers: Numbers, i: int) -> JsonObject:
    task, rollout = numbers.tasks[i], numbers.rollouts[i]
    info: JsonObject = {
        "rollout_id": f"{task}:{rollout}",
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
    }
    values = dict(numbers.record(i))
    if "reward" in values:
        info["reward"] = values.pop("reward")
    info |= {name: values.pop(name) for name in list(values) if name in numbers.usage}
    return info | values


def _repeat_level(numbers: Numbers) -> list[JsonObject]:
    """One entry per rollout index over all tasks; nothing where there is only one index."""
    repeats = by_index(numbers.rollouts)
    if len(repeats) == 1:
        return []
    tasks = len(set(numbers.tasks))
    entries: list[JsonObject] = []
    for rollout, records in repeats.items():
        present = len({numbers.tasks[i] for i in records})
        entry: JsonObject = {
            "_ng_rollout_index": rollout,
            "sample_count": present,
            "missing_count": tasks - present,
        }
        for name in sorted(numbers.names):
            if values := sorted(numbers.of(name, records)):
                entry |= _repeat_statistics(name, values)
        entries.append(entry)
    return entries


def _repeat_statistics(name: str, ordered: list[float]) -> JsonObject:
    centre, std = mean(ordered), deviation(ordered)
    error = std / math.sqrt(len(ordered))
    statistics = {
        f"mean/{name}": centre,
        f"median/{name}": quantile(ordered, 0.5),
        f"std/{name}": std,
        f"sem/{name}": error,
        f"min/{name}": ordered[0],
        f"max/{name}": ordered[-1],
        f"p25/{name}": quantile(ordered, 0.25),
        f"p75/{name}": quantile(ordered, 0.75),
    }
    if len(ordered) > 1:
        low, high = t_interval(centre, error, len(ordered) - 1)
        statistics |= {f"ci_low_95/{name}": low, f"ci_high_95/{name}": high}
    return _in_json(statistics)


def _across_repeats(repeats: list[JsonObject]) -> JsonObject:
    """How the repeats' means vary, each repeat one observation."""
    observations: dict[str, list[float]] = {}
    for entry in repeats:
        for name, value in entry.items():
            if _is_estimate(name) and isinstance(value, float):
                observations.setdefault(name, []).append(value)
    return _in_json(
        {key: value for name, seen in observations.items() for key, value in _variation(name, seen)}
    )


def _is_estimate(name: str) -> bool:
    return name.startswith("mean/") and name.rsplit("/", 1)[1] not in _KEPT_SEPARATE


def _variation(name: str, observations: list[float]) -> Iterable[tuple[str, float]]:
    ordered = sorted(observations)
    centre, std = mean(ordered), deviation(ordered)
    error = std / math.sqrt(len(ordered))
    named: Mapping[str, float] = {
        "mean": centre,
        "median": quantile(ordered, 0.5),
        "std": std,
        "min": ordered[0],
        "max": ordered[-1],
        "se": error,
    }
    for statistic, value in named.items():
        yield f"{statistic}_across_repeats/{name}", value
    if len(ordered) > 1:
        low, high = t_interval(centre, error, len(ordered) - 1)
        yield f"ci_low_95_across_repeats/{name}", low
        yield f"ci_high_95_across_repeats/{name}", high
