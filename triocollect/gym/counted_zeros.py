"""Rows without a result that a run's metrics count all the same. Pure; no file changes by it.

Gym 0.7.0, rollout_collection.py: _failure_rows_counted_as_zero, _missing_rollout_rows_counted_as_zero,
_fill_task_fields.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from triocollect.protocol.ids import RowKey
from triocollect.rows.types import AgentRef

Zeros: TypeAlias = dict[RowKey, dict[str, Raw]]

_DIAGNOSES: Final = ("failure_kind", "failure_reason")  # and everything `_ng_failure_…`
_NOT_FILLED: Final = ("responses_create_params", "response")  # and everything `_…`
_NULL: Final = Raw(b"null")


class _Identity(msgspec.Struct, frozen=True):
    task: int | None = msgspec.field(name="_ng_task_index", default=None)
    rollout: int | None = msgspec.field(name="_ng_rollout_index", default=None)
    agent_ref: AgentRef | None = None
    environment_server: str | None = msgspec.field(name="_ng_environment_server", default=None)
    failure_class: str | None = msgspec.field(name="_ng_failure_class", default=None)

    @property
    def key(self) -> RowKey | None:
        return None if self.task is None or self.rollout is None else RowKey(self.task, self.rollout)

    @property
    def group(self) -> str | None:
        """The agent it ran on, else its environment server: a task names no agent."""
        agent = None if self.agent_ref is None else self.agent_ref.name
        return agent or self.environment_server


_identify: Final = msgspec.json.Decoder(_Identity).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def zeros_of_failures(
    sidecar: Iterable[bytes], classes: Collection[str], succeeded: Collection[RowKey]
) -> Zeros:
    """Failures of these classes as scored records. A row's last line counts, if it never succeeded."""
    latest: dict[RowKey, tuple[str | None, bytes]] = {}
    for line in sidecar:
        known = _identify(line)
        if known.key is not None:
            latest[known.key] = (known.failure_class, line)
    return {
        key: _scored(_decode_fields(line))
        for key, (failure_class, line) in latest.items()
        if failure_class in classes and key not in succeeded
    }


def zeros_of_missing(materialized: Iterable[bytes], recorded: Collection[RowKey]) -> Zeros:
    """Rows that left no line in output or sidecar; those that name neither agent nor server count nowhere."""
    zeros: Zeros = {}
    for line in materialized:
        known = _identify(line)
        if known.key is None or known.key in recorded or known.group is None:
            continue
        row = _decode_fields(line)
        zero = {key: row[key] for key in ("_ng_task_index", "_ng_rollout_index")}
        zero["agent_ref"] = row.get("agent_ref", _NULL)
        zero["reward"] = Raw(b"0.0")
        if "_ng_environment_server" in row:
            zero["_ng_environment_server"] = row["_ng_environment_server"]
        zeros[known.key] = zero
    return zeros


def carried_fields(output: Iterable[bytes]) -> dict[str | None, set[str]]:
    """The names of the fields that real records carry, by agent or environment server."""
    carried: dict[str | None, set[str]] = {}
    for line in output:
        carried.setdefault(_identify(line).group, set()).update(_decode_fields(line))
    return carried


def fill_task_fields(
    zeros: Zeros, carried: Mapping[str | None, Collection[str]], materialized: Iterable[bytes]
) -> None:
    """Gives zeros the data set's fields that real records of the same agent or server carry, in place.

    No others: a server averages every number it gets, so a field of its own would become a metric.
    """
    for line in materialized:
        known = _identify(line)
        if known.key is None or (zero := zeros.get(known.key)) is None:
            continue
        wanted = carried.get(known.group, ())
        for name, value in _decode_fields(line).items():
            if name in wanted and not name.startswith("_") and name not in _NOT_FILLED:
                zero.setdefault(name, value)


def _scored(failure: dict[str, Raw]) -> dict[str, Raw]:
    """A sidecar record without its diagnoses: an HTTP status is a number and would be averaged."""
    zero = {
        name: value
        for name, value in failure.items()
        if not name.startswith("_ng_failure_") and name not in _DIAGNOSES
    }
    zero["mask_sample"] = Raw(b"false")
    zero.setdefault("reward", Raw(b"0.0"))
    return zero
