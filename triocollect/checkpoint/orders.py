"""What the controller can be told to do, and what comes of it. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, Literal, TypeAlias

import msgspec

from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import CheckpointOutcome, Restarted
from triocollect.protocol.messages import Blocker
from triocollect.report.wording import calls_under_way, rows

_TOLD_S: Final = 0.05  # a phase that took less is not told
_REASONS: Final = 3

RUN_ENDED: Final = "the run has ended"  # the reason where nobody takes orders any more

Why: TypeAlias = Literal["signal", "timer", "library"]


class Checkpoint(msgspec.Struct, frozen=True):
    """Take a checkpoint and go on; `why`: who asked first."""

    why: Why


class Stop(msgspec.Struct, frozen=True):
    """Take a checkpoint and end the run, at `by` (monotonic seconds) at the latest."""

    by: float


class Retire(msgspec.Struct, frozen=True):
    """Retire the rows that brought no reply."""


class RowsDone(msgspec.Struct, frozen=True):
    """Every row has had its last word of this run."""


class Leave(msgspec.Struct, frozen=True):
    """End the run at once, without a checkpoint."""


Order: TypeAlias = Leave | Stop | Checkpoint | Retire | RowsDone


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """LATEST names this checkpoint. `restarted`: rows that would start from their input, and why."""

    outcome: CheckpointOutcome
    continued: tuple[EpisodeId, ...]
    restarted: tuple[Restarted, ...]
    stopped: bool  # the run ends with it


class NotPublished(msgspec.Struct, frozen=True, kw_only=True):
    """LATEST is as it was. `blockers`: what kept participants from being ready, when that was the reason."""

    outcome: CheckpointOutcome
    blockers: tuple[Blocker, ...] = ()
    stopped: bool = False

    @property
    def reason(self) -> str:
        """Why nothing was published, in a sentence."""
        return self.outcome.reason or "no reason was given"


Taken: TypeAlias = Published | NotPublished


class RowsEnd(Enum):
    """How the rows' part of a run ended."""

    DONE = auto()
    PREEMPTED = auto()  # told to stop: exit 75 where rows are left
    INTERRUPTED = auto()  # told twice: exit 130


class Ended(msgspec.Struct, frozen=True):
    """How it ended, and the stop's checkpoint where one was tried."""

    ending: RowsEnd
    taken: Taken | None = None


def nothing_tried(reason: str) -> NotPublished:
    """The outcome where there was nothing to try."""
    return NotPublished(
        outcome=CheckpointOutcome(operation=0, checkpoint_id="", published=False, reason=reason)
    )


def in_words(taken: Taken) -> str:
    """What came of it, in one line: what is safe, its size, how long it took, what is not safe and why."""
    outcome = taken.outcome
    if isinstance(taken, NotPublished):
        return f"no checkpoint: {taken.reason}"
    phases = ", ".join(
        f"{phase} {seconds:.1f}" for phase, seconds in outcome.phases_s.items() if seconds >= _TOLD_S
    )
    said = (
        f"checkpoint {outcome.checkpoint_id}: {rows(outcome.continued)} can be continued, "
        f"{outcome.work_s:.0f} s of work in {outcome.bytes} bytes, "
        f"taken in {sum(outcome.phases_s.values()):.1f} s" + (f" ({phases})" if phases else "")
    )
    said += calls_under_way("calls under way", outcome.undelivered, outcome.cut, outcome.kept_tokens)
    if taken.restarted:
        said += f"; {outcome.restarted} in flight would start from their input: {_why(taken.restarted)}"
    return said


def _why(restarted: Sequence[Restarted]) -> str:
    """Each reason once, with how many rows and one of them."""
    by_reason = defaultdict[str, list[Restarted]](list)
    for one in restarted:
        by_reason[one.reason].append(one)
    told = [
        found[0].capture_key + (f" and {len(found) - 1} more" if len(found) > 1 else "") + f": {reason}"
        for reason, found in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]
    return "; ".join(told[:_REASONS]) + (
        f"; {len(told) - _REASONS} more reasons" if len(told) > _REASONS else ""
    )
