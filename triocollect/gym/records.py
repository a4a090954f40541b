"""What is written for a row: the stamps, the failure fields, the line. Pure."""

from typing import Final, Literal

import msgspec
from msgspec import Raw

from triocollect.gym.bodies import ATTEMPT_KEY
from triocollect.gym.episodes import is_true
from triocollect.gym.routing import Target
from triocollect.gym.trajectory import add_empty_trajectory
from triocollect.records.fate import attempt_of, class_of, is_failure, is_there, text_of
from triocollect.rows.types import Row

AGENT_REQUEST_FAILED: Final = "agent_request_failed"
AGENT_RUN_ERROR: Final = "agent_run_error"
GATEWAY_STATUSES: Final = frozenset({429, 502, 503, 504})  # something in front of the server answered
_KEPT_CHARACTERS: Final = 2000
_KEPT_BYTES: Final = 4 * _KEPT_CHARACTERS  # a character of UTF-8 is at most four bytes


def stamp(fields: dict[str, Raw], row: Row, attempt: int, target: Target) -> None:
    """Writes the collector's keys into a record, in Gym's order, each only where it is known.

    A key the server sent already keeps its place and takes our value; `_ng_attempt_index` and
    `_ng_rollout_id` that only the server knows stay (Gym 0.7.0, rollout_collection.py, result loop).
    """
    fields["_ng_task_index"] = Raw(b"%d" % row.key.task)
    fields["_ng_rollout_index"] = Raw(b"%d" % row.key.rollout)
    if row.agent_ref is not None:
        fields["agent_ref"] = row.agent_ref
    if row.task_source is not None:
        fields["task_source"] = row.task_source
    if row.skills_ref is not None:
        fields["skills_ref"] = row.skills_ref
    if attempt > 0:
        fields[ATTEMPT_KEY] = Raw(b"%d" % attempt)
    elif ATTEMPT_KEY in fields and attempt_of(fields[ATTEMPT_KEY]) is None:
        del fields[ATTEMPT_KEY]  # what cannot be an attempt must not be read back as one
    if row.explicit_id is not None:
        fields["_ng_rollout_id"] = _text(row.explicit_id)
    if target.server is not None:
        fields["_ng_environment_server"] = _text(target.server)
    if target.implementation is not None:
        fields["_ng_result_type"] = _text(target.implementation)
    add_empty_trajectory(fields, row, attempt)


def place(fields: dict[str, Raw]) -> Literal["nothing", "sidecar", "output"]:
    """Where a record goes: `_ng_no_persist` beats a failure beats success."""
    if "_ng_no_persist" in fields and is_true(fields["_ng_no_persist"]):
        return "nothing"
    failed = is_failure(
        failure_class=fields.get("_ng_failure_class"),
        error=fields.get("error"),
        has_result="reward" in fields or "response" in fields,
    )
    return "sidecar" if failed else "output"


def settle_class(fields: dict[str, Raw]) -> str:
    """The failure class of a sidecar record, in which it is a text from here on.

    A server's bare error is filed under `agent_run_error`.
    """
    found = fields.get("_ng_failure_class")
    fields["_ng_failure_class"] = settled = _text(text_of(found) if is_there(found) else AGENT_RUN_ERROR)
    return class_of(settled)


def encode_record(fields: dict[str, Raw]) -> bytes:
    """One line with its newline. Values pass as they came, but for line breaks between them."""
    line = msgspec.json.encode(fields)
    if b"\n" in line or b"\r" in line:
        line = msgspec.json.format(line, indent=-1)
    return line + b"\n"


def failure_class_of_status(status: int | None) -> str:
    """Whether the rollout ran and broke, or may not have run: no status, or one of a gateway."""
    return AGENT_REQUEST_FAILED if status is None or status in GATEWAY_STATUSES else AGENT_RUN_ERROR


def failure_record(
    *, kind: str, message: str, status: int | None, body: bytes = b"", failure_class: str | None = None
) -> dict[str, Raw]:
    """The unstamped sidecar record of a `/run` that brought no result.

    `kind` is what broke, as a class name ("HTTPStatusError"). `body` is that of an error status; of a reply
    with status 200 that could not be read, Gym keeps none.
    """
    return {
        "_ng_failure_class": _text(failure_class or failure_class_of_status(status)),
        "_ng_failure_type": _text(kind),
        "_ng_failure_message": _text(message),
        "_ng_failure_http_status": Raw(msgspec.json.encode(status)),
        "_ng_failure_response_body": _text(_beginning(body)) if body else Raw(b"null"),
    }


def _beginning(body: bytes) -> str:
    text = body[:_KEPT_BYTES].decode("utf-8", "replace")
    cut = len(text) > _KEPT_CHARACTERS or len(body) > _KEPT_BYTES
    return text[:_KEPT_CHARACTERS] + "…" if cut else text


def _text(value: str) -> Raw:
    return Raw(msgspec.json.encode(value.encode("utf-8", "replace").decode()))
