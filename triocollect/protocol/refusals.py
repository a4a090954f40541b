"""Refusals: the error body of the control plane and of every server's own routes, with its status. Pure."""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType


class Code(StrEnum):
    """Why a request was refused."""

    ROLLOUT_ID_REQUIRED = "rollout_id_required"
    BUSY = "busy"
    UNAUTHORIZED = "unauthorized"
    CHECKPOINT_OPEN = "checkpoint_open"
    STALE_ATTEMPT = "stale_attempt"
    DUPLICATE_ATTEMPT = "duplicate_attempt"
    TASK_MISMATCH = "task_mismatch"
    STALE_CHECKPOINT = "stale_checkpoint"
    STALE_EPOCH = "stale_epoch"
    OTHER_RUN = "other_run"
    NOT_RESTORED = "not_restored"
    CHECKPOINT_CONFLICT = "checkpoint_conflict"
    INVALID_PHASE = "invalid_phase"
    NOT_READY = "not_ready"
    RESTART_IN_SCOPE = "restart_in_scope"
    NOT_FRESH = "not_fresh"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    RETIRED = "retired"
    INVALID_STATE = "invalid_state"
    BAD_REQUEST = "bad_request"
    COORDINATOR_UNAVAILABLE = "coordinator_unavailable"
    NO_SESSION = "no_session"
    UNKNOWN_TOOL = "unknown_tool"


_OTHER_STATUS: Final = {
    Code.ROLLOUT_ID_REQUIRED: 400,
    Code.UNAUTHORIZED: 401,
    Code.NO_SESSION: 404,
    Code.UNKNOWN_TOOL: 404,
    Code.RETIRED: 410,
    Code.INVALID_STATE: 422,
    Code.BAD_REQUEST: 422,
    Code.BUSY: 503,
    Code.COORDINATOR_UNAVAILABLE: 503,
}


def status_of(code: Code) -> int:
    """The HTTP status of a refusal; most are conflicts."""
    return _OTHER_STATUS.get(code, 409)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why, in a word and in a sentence, and where the participant stands.

    `retired_through`, with `stale_attempt`: the highest retired attempt; the next one has to be above it.
    """

    code: str
    detail: str
    phase: str | None = None
    operation: int | None = None
    retired_through: int | UnsetType = UNSET


class RefusalBody(msgspec.Struct, frozen=True):
    """The body of every refusal."""

    error: Refusal
