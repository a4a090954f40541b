"""The ends that one send of a row can have. Values for one `match`, not keys in a dict. Pure."""

from typing import TypeAlias

import msgspec
from msgspec import Raw


class Success(msgspec.Struct, frozen=True):
    """The environment ended the episode with a result: `fields` go to the output."""

    fields: dict[str, Raw]
    reward: float | None


class Failure(msgspec.Struct, frozen=True):
    """The environment ended the episode without a result, or what it sent cannot be used: to the sidecar."""

    fields: dict[str, Raw]
    failure_class: str
    message: str


class Unpersisted(msgspec.Struct, frozen=True):
    """The environment ended the episode and asked that nothing be written (`_ng_no_persist`)."""


class NoReply(msgspec.Struct, frozen=True):
    """Nothing came that says how the episode ended. It may run still: the attempt is used up.

    `status` is that of a gateway or an overloaded server, None where no status line came.
    """

    kind: str
    reason: str
    status: int | None = None
    retry_after_s: float | None = None


class NothingRan(msgspec.Struct, frozen=True):
    """The request cannot have arrived anywhere, so the same attempt may be sent again."""

    kind: str
    reason: str
    retry_after_s: float | None = None


class Closed(msgspec.Struct, frozen=True):
    """The environment is closed for a checkpoint: nothing ran, and this send does not count."""

    reason: str
    retry_after_s: float | None = None


class Refused(msgspec.Struct, frozen=True):
    """The environment knows a later attempt than this one, or nothing of it: take the next attempt."""

    kind: str
    reason: str
    retry_after_s: float | None = None
    retired_through: int | None = None  # every attempt up to this one is refused


class Overtaken(msgspec.Struct, frozen=True):
    """Another collector commands this server now: this one is over."""

    reason: str


Outcome: TypeAlias = Success | Failure | Unpersisted | NoReply | NothingRan | Closed | Refused | Overtaken
