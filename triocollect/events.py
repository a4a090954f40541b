"""What a run tells while it goes on; progress and logs listen. Pure."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import CheckpointOutcome


class Note(msgspec.Struct, frozen=True, tag="note"):
    """Something the user should read once. `level` decides colour and stream, nothing else."""

    text: str
    level: Literal["info", "warning"] = "info"


class Resumed(msgspec.Struct, frozen=True):
    """What earlier runs left in the failures sidecar. Counts rows, `failures` alone counts lines."""

    failures: int
    failed: int
    terminal: int  # not tried again: the failure said so
    exhausted: int  # not tried again: `max_attempts` failures
    max_attempts: int


class RunStarted(msgspec.Struct, frozen=True, tag="run_started"):
    """Rows are about to be sent. `expected` = `done` (succeeded before) + `given_up` + rows to run.

    `resumed` is None for a fresh run.
    """

    run: str
    expected: int
    done: int
    given_up: int
    concurrency: int
    resumed: Resumed | None = None


class RowSent(msgspec.Struct, frozen=True, tag="row_sent"):
    """In flight begins."""

    key: RowKey
    episode: EpisodeId
    agent: str | None


class RowRetried(msgspec.Struct, frozen=True, tag="row_retried"):
    """No reply came; the row is not in flight any more and will be sent again after `pause_s`."""

    key: RowKey
    episode: EpisodeId
    reason: str
    pause_s: float


class RowSucceeded(msgspec.Struct, frozen=True, tag="row_succeeded"):
    """A result line is written. `reward` is None for an unscored row."""

    key: RowKey
    episode: EpisodeId
    agent: str | None
    reward: float | None
    seconds: float


class RowFailed(msgspec.Struct, frozen=True, tag="row_failed"):
    """A sidecar line is written."""

    key: RowKey
    episode: EpisodeId
    agent: str | None
    failure_class: str
    message: str
    seconds: float


class RowLeft(msgspec.Struct, frozen=True, tag="row_left"):
    """The row ended without any line: the server said so (`_ng_no_persist`), or it is not sent (again).

    `attempt`: that of the send which ended so; None where it was between two.
    """

    key: RowKey
    reason: str
    rollout_id: str | None = None
    attempt: int | None = None


class Restored(msgspec.Struct, frozen=True, tag="restored"):
    """What a start made of rows that an earlier run had under way.

    `continued`: which attempt goes on as which; `anew`: so many begin from their input. `fault`: why none
    goes on although some were to.
    """

    operation: int | None  # None: nothing was asked of anybody
    checkpoint_id: str | None
    continued: tuple[tuple[EpisodeId, EpisodeId], ...]
    anew: int
    fault: str | None = None


class RetiredRows(msgspec.Struct, frozen=True, tag="retired_rows"):
    """So many attempts that brought no reply are stopped and refused everywhere."""

    operation: int
    attempts: int


class CheckpointStarted(msgspec.Struct, frozen=True, tag="checkpoint_started"):
    """No row starts until it has ended. `why`: who asked for it."""

    operation: int
    why: str


class CheckpointEnded(msgspec.Struct, frozen=True, tag="checkpoint_ended"):
    """Published or not; rows start again unless the run stops. `standing`: rows that it continues by now.

    `counts`: what the participants counted at the cut, added up by name.
    """

    outcome: CheckpointOutcome
    standing: tuple[RowKey, ...] = ()
    counts: dict[str, int] = {}


Event: TypeAlias = (
    Note
    | RunStarted
    | RowSent
    | RowRetried
    | RowSucceeded
    | RowFailed
    | RowLeft
    | Restored
    | RetiredRows
    | CheckpointStarted
    | CheckpointEnded
)
EVENTS: Final[tuple[type[Event], ...]] = get_args(Event)
Listener: TypeAlias = Callable[[Event], None]
