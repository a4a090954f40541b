"""What in a row says whose session it seeds: a Gym agent sends no headers. Pure."""

from typing import Final

import msgspec

from triocollect.protocol.ids import Attempt, EpisodeId, RowKey, rollout_id_fault


class _RowNames(msgspec.Struct, frozen=True):
    rollout_id: str | None = msgspec.field(name="_ng_rollout_id", default=None)
    task: int | None = msgspec.field(name="_ng_task_index", default=None)
    rollout: int | None = msgspec.field(name="_ng_rollout_index", default=None)
    attempt: Attempt = msgspec.field(name="_ng_attempt_index", default=0)


_decode: Final = msgspec.json.Decoder(_RowNames).decode


def episode_of_row(row: bytes) -> EpisodeId | None:
    """Whose work it is; None where the row does not say. Raises msgspec.ValidationError."""
    names = _decode(row)
    rollout_id = names.rollout_id
    if rollout_id is None:
        if names.task is None or names.rollout is None:
            return None
        rollout_id = str(RowKey(names.task, names.rollout))
    if (fault := rollout_id_fault(rollout_id)) is not None:
        raise msgspec.ValidationError(f"_ng_rollout_id: {fault}")
    return EpisodeId(rollout_id, names.attempt)
