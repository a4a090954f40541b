"""The `ng_trajectory` that Gym projects for a result with empty observations. Pure.

Gym 0.7.0 (rollout_collection.py, _build_trajectory_record) looks for the key `ng_agent_observations`, not at
its value, so every `single_agent_turn` record gets one even where nothing is observed. Only this empty
projection is made here. Where a reply holds real observations or its own trajectory, it is passed on as is.
"""

from typing import Final

import msgspec
from msgspec import Raw

from triocollect.gym.episodes import is_null
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.values import Json
from triocollect.rows.types import Row

_TRAJECTORY: Final = "ng_trajectory"
_TASK_NAMES: Final = ("task_id", "problem_id", "instance_id")
_NULL: Final = Raw(b"null")


class _Gap(msgspec.Struct, frozen=True):
    code: str
    invocation_id: None = None
    detail: None = None


class _EmptyTrajectory(msgspec.Struct, frozen=True):
    task_id: str
    rollout_id: str
    invocations: tuple[()] = ()
    turns: tuple[()] = ()
    model_calls: tuple[()] = ()
    tool_calls: tuple[()] = ()
    gaps: tuple[_Gap, ...] = (
        _Gap("model_calls_unavailable"),
        _Gap("turns_unavailable"),
        _Gap("conversation_unavailable"),
    )


class _Versioned(_EmptyTrajectory, frozen=True, tag_field="schema_version", tag="1.0"):
    """The version comes first on the wire."""


def add_empty_trajectory(fields: dict[str, Raw], row: Row, attempt: int) -> None:
    """Appends the empty projection where the record asks for one."""
    observations = fields.get("ng_agent_observations")
    if observations is None or not is_null(observations):
        return
    if _TRAJECTORY in fields or "ng_model_call_capture" in fields:
        return
    rollout_id = EpisodeId(row.rollout_id, attempt).capture_key
    fields[_TRAJECTORY] = Raw(msgspec.json.encode(_Versioned(task_id=_task_name(row), rollout_id=rollout_id)))


def _task_name(row: Row) -> str:
    """The first of the row's task names as Python prints it: a mapping is a dict's repr, as in Gym."""
    fields = msgspec.json.decode(row.line, type=dict[str, Raw])
    for key in _TASK_NAMES:
        name: Json = msgspec.json.decode(fields.get(key, _NULL))
        if name is not None:
            return str(name)
    return str(row.key.task)
