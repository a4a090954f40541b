"""Episode replies: recognise one, and make of it what is stored. Pure.

Gym 0.7.0 (rollout_collection.py, _is_episode_response, _episode_record) ends the whole run over a reply that
it cannot use; here such a reply is a failure of its row.
"""

from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from triocollect.gym.bodies import taskset_of
from triocollect.protocol.values import NOT_JSON, Json
from triocollect.rows.types import Row

ENVIRONMENT_SERVER_FAILED: Final = "environment_server_failed"
_OURS: Final = frozenset({"ng_trajectory", "ng_model_call_capture", "ng_perf"})  # and everything `_ng_…`
_NULL: Final = b"null"

_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class Unwrapped(NamedTuple):
    """What an unstamped record holds; `failed` when it is a sidecar record."""

    fields: dict[str, Raw]
    failed: bool = False


def unwrap_episode(row: Row, fields: dict[str, Raw]) -> Unwrapped:
    """The record in an episode reply. What is not the reply to an episode comes back as it is."""
    if taskset_of(row) is None or not _is_episode_reply(fields):
        return Unwrapped(fields)
    task_id = fields["task_id"]
    failure = fields.get("failure", Raw(_NULL))
    if not is_null(failure):
        if not _is_object(failure):
            return _unusable(task_id, "the environment server's reply has a `failure` that is no object")
        return _failed(task_id, _decode_fields(failure))
    result = fields.get("result", Raw(_NULL))
    if not _is_object(result):
        return _unusable(task_id, "the environment server's reply has neither a result nor a failure")
    record = _decode_fields(result)
    if reserved := sorted(key for key in record if key.startswith("_ng_") or key in _OURS):
        return _unusable(
            task_id,
            "the environment server's result uses keys that only a collector writes: " + ", ".join(reserved),
        )
    record["_ng_task_id"] = task_id
    return Unwrapped(record)


def is_null(value: Raw) -> bool:
    """Whether this is JSON's null."""
    return bytes(value) == _NULL


def is_true(value: Raw) -> bool:
    """Whether Python, and so Gym, takes this JSON value for true."""
    try:
        judged: Json = msgspec.json.decode(value)
    except NOT_JSON:
        return True  # a number that is too large, or something that is very deep: not nothing
    return bool(judged)


def _failed(task_id: Raw, failure: dict[str, Raw]) -> Unwrapped:
    record = _failure_fields(
        task_id,
        terminal=is_true(failure.get("terminal", Raw(b"false"))),
        message=failure.get("failure_reason", Raw(_NULL)),
    )
    for key in ("stage", "partial_response"):
        if not is_null(failure.get(key, Raw(_NULL))):
            record[f"_ng_failure_{key}"] = failure[key]
    return Unwrapped(record, failed=True)


def _unusable(task_id: Raw, why: str) -> Unwrapped:
    message = Raw(msgspec.json.encode(why))
    return Unwrapped(_failure_fields(task_id, terminal=False, message=message), failed=True)


def _failure_fields(task_id: Raw, *, terminal: bool, message: Raw) -> dict[str, Raw]:
    return {
        "_ng_task_id": task_id,
        "_ng_failure_class": Raw(msgspec.json.encode(ENVIRONMENT_SERVER_FAILED)),
        "_ng_failure_terminal": Raw(b"true" if terminal else b"false"),
        "_ng_failure_message": message,
    }


def _is_episode_reply(fields: dict[str, Raw]) -> bool:
    identified = all(key in fields and _is_object(fields[key]) for key in ("episode_id", "task_id"))
    return identified and ("result" in fields or "failure" in fields)


def _is_object(value: Raw) -> bool:
    return memoryview(value)[0] == ord("{")
