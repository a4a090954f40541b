"""Metrics over finished outputs, long after and without a server."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from triocollect import durable
from triocollect.errors import RefusedError
from triocollect.metrics import (
    Aggregation,
    Credited,
    Entry,
    Interval,
    Scores,
    Summary,
    bounds,
    file_bytes,
    labels_of,
)
from triocollect.metrics.summary import INTERVAL_METHOD
from triocollect.protocol.ids import RowKey
from triocollect.protocol.values import Json, JsonObject
from triocollect.report.machine import as_json
from triocollect.report.outputs import Output, Result, expected_rows, find_outputs
from triocollect.report.tables import agent_table, findings_of
from triocollect.report.wording import span
from triocollect.rows.names import aggregate_path

_KEYS_NAMED: Final = 10


def aggregate_outputs(paths: Sequence[Path]) -> "Aggregated":
    """Read outputs (files, or folders of them) once and aggregate all their results together.

    Shards are merged by (who ran it, task, rollout). A row that two files hold with equal bytes counts once;
    with different bytes the files are two runs, and RefusedError names the rows. Damage is reported, never
    fatal. Raises UsageError where there is no output, StorageError where one cannot be read.
    """
    outputs = [Output(path) for path in find_outputs(paths)]
    merge = _Merge(outputs)
    groups: dict[str, _Group] = {}
    for index, output in enumerate(outputs):
        for result in output:
            server, agent = _who(result.record)
            name = server or agent or ""
            if merge.is_new(index, name, result):
                groups.setdefault(name, _Group(server, agent)).add(result.record)
    merge.check()
    return Aggregated(outputs, groups)


class Aggregated:
    """What several outputs say together."""

    def __init__(self, outputs: Sequence[Output], groups: Mapping[str, "_Group"]) -> None:
        self.outputs: Final = outputs
        labels = labels_of({name: group.agent for name, group in groups.items()})
        self._groups: Final = dict(sorted((labels[name], group) for name, group in groups.items()))
        self.summaries: Final[list[Summary]] = [
            group.scores.summary(label) for label, group in self._groups.items()
        ]
        self.rollouts: Final = sum(summary.rollouts for summary in self.summaries)
        expected = [expected_rows(output.path) for output in outputs]
        self.expected: Final = None if None in expected else sum(filter(None, expected))

    @property
    def reward_bounds(self) -> Interval | None:
        """The mean reward if all rows without a result brought 0, and if all brought 1.

        None where nothing says how many rows there should be, or where they are shared by several agents.
        """
        if self.expected is None or len(self._groups) != 1:
            return None
        rewards = next(iter(self._groups.values())).scores.rewards
        return bounds(rewards.total, rewards.count, max(0, self.expected - self.rollouts))

    @property
    def only_damage(self) -> bool:
        """Whether there is no result, and what stands there cannot be read: they may be no outputs at all."""
        return not self.rollouts and any(output.damaged.count for output in self.outputs)

    def tables(self) -> str:
        """For people: one line per agent, its key metrics, and what was found damaged."""
        parts = [agent_table(self.summaries), f"Intervals: {INTERVAL_METHOD}."]
        for label, group in self._groups.items():
            key_metrics = msgspec.json.format(msgspec.json.encode(group.reply["key_metrics"]), indent=4)
            parts.append(f"\nKey metrics for {label}:\n{key_metrics.decode()}")
        parts += ["", *self._coverage(), *findings_of(self.outputs)]
        return "\n".join(parts)

    def as_json(self) -> bytes:
        """The same for programs: one JSON object."""
        return as_json(
            {
                "agents": self.summaries,
                "interval": INTERVAL_METHOD,
                "reward_bounds": self.reward_bounds,
                "rollouts": self.rollouts,
                "expected": self.expected,
                "outputs": [output.findings() for output in self.outputs],
            }
        )

    def gym_file_bytes(self) -> bytes:
        """The content of `<stem>_aggregate_metrics.json`."""
        return file_bytes(_entry(label, group) for label, group in self._groups.items())

    def write(self, output: Path | None = None) -> Path:
        """Put Gym's file beside the first output, or beside `output`; returns where. Raises StorageError."""
        path = aggregate_path(self.outputs[0].path if output is None else output)
        durable.replace(path, self.gym_file_bytes())
        return path

    def _coverage(self) -> Iterable[str]:
        if self.expected is None:
            yield f"Metrics cover: {self.rollouts} rollouts"
            return
        yield f"Metrics cover: {self.rollouts} of {self.expected} rollouts"
        limits = self.reward_bounds
        if limits is not None and limits.low < limits.high:
            yield f"Rows without a result can move the mean reward within {span(limits)}"


class _Group:
    """The results that one environment server (or one agent, where no server is named) is answerable for."""

    def __init__(self, server: str | None, agent: str | None) -> None:
        self.server: Final = server
        self.agent: Final = agent
        self.scores: Final = Scores()
        self._aggregation: Final = Aggregation()
        self._reply: JsonObject | None = None

    def add(self, record: JsonObject) -> None:
        self.scores.add(record)
        self._aggregation.add(record)

    @property
    def reply(self) -> JsonObject:
        """Computed once, when all records are in."""
        if self._reply is None:
            self._reply = self._aggregation.reply()
        return self._reply


def _entry(label: str, group: _Group) -> Entry:
    return Entry(
        agent_ref=Credited(label),
        environment_server=UNSET if group.server is None else group.server,
        agent_metrics=group.reply["agent_metrics"],
        key_metrics=group.reply["key_metrics"],
        group_level_metrics=group.reply["group_level_metrics"],
        repeat_level_metrics=group.reply["repeat_level_metrics"],
    )


def _who(record: JsonObject) -> tuple[str | None, str | None]:
    """(environment server, agent) of a record."""
    server, agent = record.get("_ng_environment_server"), record.get("agent_ref")
    return _name(server), _name(agent.get("name") if isinstance(agent, dict) else None)


def _name(value: Json) -> str | None:
    return value if isinstance(value, str) else None


class _Merge:
    """Which rows the files before this one had. Keeps nothing for a single file."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._outputs: Final = outputs
        self._seen: Final[dict[str, dict[RowKey, tuple[int, int]]]] = {}
        self._clashes: Final[dict[tuple[int, int], list[RowKey]]] = {}

    def is_new(self, index: int, group: str, result: Result) -> bool:
        """Whether this row of the index-th file is to be counted."""
        if len(self._outputs) == 1:
            return True
        seen = self._seen.setdefault(group, {})
        earlier, fingerprint = seen.setdefault(result.key, (index, result.fingerprint))
        if earlier == index:
            return True
        if fingerprint != result.fingerprint:
            self._clashes.setdefault((earlier, index), []).append(result.key)
        return False

    def check(self) -> None:
        """Raises RefusedError where two files disagree."""
        if not self._clashes:
            return
        problems = []
        for (earlier, later), keys in self._clashes.items():
            named = ", ".join(map(str, sorted(keys)[:_KEYS_NAMED]))
            more = f" and {len(keys) - _KEYS_NAMED} more" if len(keys) > _KEYS_NAMED else ""
            both = f"{self._outputs[earlier].path} and {self._outputs[later].path}"
            problems.append(f"{both} hold different results for the same rows: {named}{more}")
        problems.append("These are separate runs, not shards of one: aggregate them one at a time.")
        raise RefusedError("\n".join(problems))
