"""Rows for tests, parsed from a line as the materialised file holds it."""

import msgspec

from triocollect.rows.types import Row, parse_row


def a_row(**fields: object) -> Row:
    """A flat row; fields given here come first, the indices last."""
    return parse_row(msgspec.json.encode(fields | {"_ng_task_index": 0, "_ng_rollout_index": 0}))


def a_task(taskset: str | None = "weather", **fields: object) -> Row:
    """A materialised task."""
    task_id = {"task_id": "w0"} if taskset is None else {"taskset": taskset, "task_id": "w0"}
    return a_row(task_id=task_id, task_input={"task_data": {"a": 0}}, **fields)
