"""A row as the collector holds it: its names, and its body as bytes. Pure."""

from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from triocollect.protocol.ids import RowKey


class AgentRef(msgspec.Struct, frozen=True):
    """`agent_ref` of a row; other fields of it pass by in the row's bytes."""

    name: str | None = None


class TaskId(msgspec.Struct, frozen=True):
    """`task_id` of a materialised task."""

    taskset: str | None = None
    task_id: Raw = Raw(b"null")


class _Head(msgspec.Struct, frozen=True):
    """What of a materialised line we look at; the rest is only passed on."""

    task: int = msgspec.field(name="_ng_task_index")
    rollout: int = msgspec.field(name="_ng_rollout_index")
    agent_ref: Raw | UnsetType = UNSET
    task_source: Raw | UnsetType = UNSET
    skills_ref: Raw | UnsetType = UNSET
    task_id: Raw | UnsetType = UNSET
    task_input: Raw | UnsetType = UNSET
    rollout_id: str | UnsetType | None = msgspec.field(name="_ng_rollout_id", default=UNSET)
    environment_server: str | UnsetType = msgspec.field(name="_ng_environment_server", default=UNSET)


class Row(msgspec.Struct, frozen=True):
    """One materialised row.

    `line` is the whole JSON object without its newline: exactly the body of a flat row's first `/run`.
    The Raw fields are stamped onto the record as they came; None where the row has no such field.
    """

    key: RowKey
    line: bytes
    explicit_id: str | None
    agent_ref: Raw | None
    task_source: Raw | None
    skills_ref: Raw | None
    task_id: Raw | None
    task_input: Raw | None
    environment_server: str | None

    @property
    def rollout_id(self) -> str:
        """The stable name of this row's rollout."""
        return str(self.key) if self.explicit_id is None else self.explicit_id

    @property
    def agent(self) -> str | None:
        """`agent_ref.name`, where it is a text."""
        try:
            return None if self.agent_ref is None else _decode_agent(self.agent_ref).name
        except msgspec.ValidationError:
            return None

    @property
    def is_task(self) -> bool:
        """Whether this is a materialised task, sent as an episode (Gym 0.7.0: task_id is a mapping)."""
        return (
            self.task_input is not None
            and self.task_id is not None
            and memoryview(self.task_id)[0] == ord("{")
        )


class Route(NamedTuple):
    """What of a row decides where it goes; many rows share one.

    `server` is the row's own `_ng_environment_server`, `agent` its `agent_ref.name`, `source` its
    `task_source`, `taskset` its `task_id.taskset`; None where the row names none.
    """

    server: str | None = None
    agent: str | None = None
    source: str | None = None
    taskset: str | None = None
    is_task: bool = False


T = TypeVar("T")

_decode_agent: Final = msgspec.json.Decoder(AgentRef).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


def parse_row(line: bytes) -> Row:
    """One line of a materialised file. Raises msgspec.MsgspecError where it is not a materialised row."""
    head = _decode_head(line)
    return Row(
        key=RowKey(head.task, head.rollout),
        line=line,
        explicit_id=_or_none(head.rollout_id),
        agent_ref=_or_none(head.agent_ref),
        task_source=_or_none(head.task_source),
        skills_ref=_or_none(head.skills_ref),
        task_id=_or_none(head.task_id),
        task_input=_or_none(head.task_input),
        environment_server=_or_none(head.environment_server),
    )


def _or_none(value: T | UnsetType | None) -> T | None:
    return None if value is UNSET else value
