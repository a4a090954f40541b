"""What of a written record is looked at on the way back: its names and its fate."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from triocollect.protocol.ids import MAX_INDEX, RowKey
from triocollect.records.fate import attempt_of, class_of, is_failure, number_of
from triocollect.records.findings import Findings
from triocollect.records.lines import Line


class RecordHead(msgspec.Struct):
    """The fields that every record carries. Only the indices have to be right: a server may send the rest."""

    task: int = msgspec.field(name="_ng_task_index")
    rollout: int = msgspec.field(name="_ng_rollout_index")
    raw_attempt: Raw | UnsetType = msgspec.field(name="_ng_attempt_index", default=UNSET)
    raw_failure_class: Raw | UnsetType = msgspec.field(name="_ng_failure_class", default=UNSET)
    error: Raw | UnsetType = UNSET
    reward: Raw | UnsetType = UNSET
    response: Raw | UnsetType = UNSET

    @property
    def key(self) -> RowKey:
        """Which row it belongs to."""
        return RowKey(self.task, self.rollout)

    @property
    def attempt(self) -> int:
        """Which attempt of it; 0 where it does not say."""
        return attempt_of(_or_none(self.raw_attempt)) or 0

    @property
    def is_failure(self) -> bool:
        """Whether it is a failure, in whichever file it stands."""
        return is_failure(
            failure_class=_or_none(self.raw_failure_class),
            error=_or_none(self.error),
            has_result=self.reward is not UNSET or self.response is not UNSET,
        )

    @property
    def reward_value(self) -> float | None:
        """The reward, where it is a number."""
        return number_of(_or_none(self.reward))


class SidecarHead(RecordHead):
    """A line of the failures sidecar."""

    terminal: Raw | UnsetType = msgspec.field(name="_ng_failure_terminal", default=UNSET)
    elapsed_seconds: Raw | UnsetType = UNSET
    reuse_cached_deliverable: Raw | UnsetType = UNSET

    @property
    def failure_class(self) -> str:
        """The class as text, also where the line names none."""
        return class_of(_or_none(self.raw_failure_class))


H = TypeVar("H", bound=RecordHead)

decode_output_head: Final = msgspec.json.Decoder(RecordHead).decode
decode_sidecar_head: Final = msgspec.json.Decoder(SidecarHead).decode


def head_of(line: Line, decode: Callable[[bytes], H], damaged: Findings) -> H | None:
    """The head of one line; None for a blank line, and for a damaged one, which is then a finding."""
    if line.data is None:
        damaged.add(line, "a hole of NUL bytes, or a line too long to be a record")
        return None
    try:
        data = bytes(line.data)
        data.decode()  # the parser passes over strings that it does not decode
        head = decode(data)
    except msgspec.ValidationError as error:
        damaged.add(line, f"not a record: {error}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not bytes(line.data[:4096]).strip() and not bytes(line.data).strip():
            return None
        damaged.add(line, f"not a whole JSON object: {_reason(error)}")
    else:
        if 0 <= head.task < MAX_INDEX and 0 <= head.rollout < MAX_INDEX:
            return head
        damaged.add(line, "indices out of range")
    return None


def _reason(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def _or_none(field: Raw | UnsetType) -> Raw | None:
    return None if field is UNSET else field
