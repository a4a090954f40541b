"""What may be done to a row before it is sent, one function per step. Pure; rows are changed in place.

All raise UsageError, saying what is wrong with the row; the caller knows the line. The rules and the order of
new keys are those of Gym 0.7.0.
"""

import json
from typing import Final

from triocollect.errors import UsageError
from triocollect.protocol.values import Json, JsonObject
from triocollect.rows.codec import name_of
from triocollect.rows.ways import Names

AGENT_REF: Final = "agent_ref"
TASK_SOURCE: Final = "task_source"
ENVIRONMENT_SERVER: Final = "_ng_environment_server"
PARAMS: Final = "responses_create_params"


def _text_of(row: JsonObject, field: str) -> str | None:
    """The text in a field; None where it is absent or null."""
    value = row.get(field)
    if value is None or type(value) is str:
        return value
    raise UsageError(f"{field} must be a string, and is {name_of(value)}")


def _agent_of(row: JsonObject) -> str | None:
    """`agent_ref.name`."""
    reference = row.get(AGENT_REF)
    if reference is None:
        return None
    if type(reference) is not dict:
        raise UsageError(f'{AGENT_REF} must be an object such as {{"name": …}}, and is {name_of(reference)}')
    name = reference.get("name")
    if name is None or type(name) is str:
        return name
    raise UsageError(f"{AGENT_REF}.name must be a string, and is {name_of(name)}")


def names_of(row: JsonObject) -> Names:
    """What of a row decides where it goes.

    It is a materialised task when `task_id` is an object and there is a `task_input`; one without a taskset
    is treated as flat until it is sent.
    """
    if TASK_SOURCE not in row and "task_id" not in row and ENVIRONMENT_SERVER not in row:  # as most rows are
        return _agent_of(row), None, None, None, False
    task_id = row.get("task_id")
    is_task = type(task_id) is dict and "task_input" in row
    taskset = task_id.get("taskset") if is_task and type(task_id) is dict else None
    return (
        _agent_of(row),
        _text_of(row, TASK_SOURCE),
        taskset if type(taskset) is str and taskset else None,
        _text_of(row, ENVIRONMENT_SERVER),
        is_task,
    )


def params_of(row: JsonObject) -> JsonObject:
    """`responses_create_params`, which a flat row must have."""
    if PARAMS not in row:
        raise UsageError(f"the row has no {PARAMS}; a row needs it unless prompt_config makes it")
    params = row[PARAMS]
    if type(params) is not dict:
        raise UsageError(f"{PARAMS} must be an object, and is {name_of(params)}")
    return params


def add_seed(row: JsonObject, seed: int) -> None:
    """Put a seed into `metadata.extra_body`, which is JSON in a string (only vLLM servers honour it)."""
    params = params_of(row)
    metadata = params.get("metadata") or {}
    if type(metadata) is not dict:
        raise UsageError(f"{PARAMS}.metadata must be an object to take a seed, and is {name_of(metadata)}")
    body = _extra_body(metadata.get("extra_body", "{}"))
    body["seed"] = seed
    row[PARAMS] = params | {"metadata": metadata | {"extra_body": json.dumps(body)}}


def _extra_body(text: Json) -> JsonObject:
    try:
        body: Json = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        body = None
    if type(body) is not dict:
        raise UsageError(
            f"{PARAMS}.metadata.extra_body must be a JSON object in a string to take a seed, "
            f"and is {json.dumps(text)[:80]}"
        )
    return body
