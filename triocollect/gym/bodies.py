"""The bytes of `/run`. Pure.

A flat row's body is its materialised line, whole, as in Gym: an `_ng_attempt_index` that the data set brings
along goes out with the first attempt as it is, and only later attempts write their own over it. A task goes
out as an episode: its two ids and the task, nothing else of the row (Gym 0.7.0, rollout_collection.py,
_episode_request_body).
"""

from typing import Final

import msgspec
from msgspec import Raw

from triocollect.protocol.ids import EpisodeId
from triocollect.rows.types import Row

ATTEMPT_KEY: Final = "_ng_attempt_index"
REUSE_KEY: Final = "reuse_cached_deliverable"


class _Taskset(msgspec.Struct, frozen=True):
    taskset: Raw = Raw(b"null")


class _Task(msgspec.Struct, frozen=True):
    task_id: Raw
    task_input: Raw


class _EpisodeRequest(msgspec.Struct, frozen=True):
    episode_id: EpisodeId
    task: _Task


_decode_taskset: Final = msgspec.json.Decoder(_Taskset).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def taskset_of(row: Row) -> str | None:
    """`task_id.taskset` of a task; None for a flat row and where it is empty or no text.

    Only a row with a taskset goes out as an episode, and only its reply can be one.
    """
    if row.task_id is None or not row.is_task:
        return None
    raw = memoryview(_decode_taskset(row.task_id).taskset)
    return msgspec.json.decode(raw, type=str) or None if raw[0] == ord('"') else None


def run_body(row: Row, attempt: int, *, reuse_cached_deliverable: Raw | None = None) -> bytes:
    """What is sent for this attempt of this row."""
    if taskset_of(row) is not None:
        return episode_body(row, attempt)
    return flat_body(row, attempt, reuse_cached_deliverable=reuse_cached_deliverable)


def flat_body(row: Row, attempt: int, *, reuse_cached_deliverable: Raw | None = None) -> bytes:
    """The line itself, not copied; a later attempt names itself, in place where the row has the key."""
    if attempt == 0 and reuse_cached_deliverable is None:
        return row.line
    fields = _decode_fields(row.line)
    if attempt > 0:
        fields[ATTEMPT_KEY] = Raw(b"%d" % attempt)
    if reuse_cached_deliverable is not None:
        fields[REUSE_KEY] = reuse_cached_deliverable
    return msgspec.json.encode(fields)


def episode_body(row: Row, attempt: int) -> bytes:
    """`{"episode_id": {"rollout_id", "attempt"}, "task": {"task_id", "task_input"}}`, of a task."""
    assert row.task_id is not None
    assert row.task_input is not None
    return msgspec.json.encode(
        _EpisodeRequest(EpisodeId(row.rollout_id, attempt), _Task(row.task_id, row.task_input))
    )
