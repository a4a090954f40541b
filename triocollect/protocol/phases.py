"""The phases of a participant and what moves it between them: one table. Pure.

The table holds for one operation at a time. Whether a call belongs to it, repeats it or is late is decided
before, by `participant/operations.py`; a call that is refused is no event.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where a participant stands; closed to new work in all but `open`."""

    OPEN = "open"
    PREPARING = "preparing"
    PREPARED = "prepared"
    COMMITTING = "committing"
    COMMITTED = "committed"
    RESTORING = "restoring"
    RESTORED = "restored"


class Event(StrEnum):
    """What a call asks for, or what came of it."""

    PREPARE = "prepare"
    AT_BOUNDARIES = "all at boundaries"
    NOT_AT_BOUNDARIES = "not ready after all"
    PREPARE_RAISED = "prepare raised"
    COMMIT = "commit"
    WRITTEN = "written"
    WRITE_FAILED = "write failed"
    RESTORE = "restore"
    INSTALLED = "installed"
    RESTORE_FAILED = "restore failed"
    RESUME = "resume"
    LEASE_END = "lease end"
    HIGHER_EPOCH = "higher epoch"
    NEWER_OPERATION = "newer operation"
    RETIRE = "retire"


ENDS: Final = (Event.RESUME, Event.LEASE_END, Event.HIGHER_EPOCH, Event.NEWER_OPERATION)
_OPENS: Final = dict.fromkeys(ENDS, Phase.OPEN)

# A repeat of a call stays where its first left off: a lost reply makes the caller ask again. While an install
# is under way nothing opens: what ends the operation then is remembered, and the install's end obeys it.
NEXT: Final[Mapping[Phase, Mapping[Event, Phase]]] = {
    Phase.OPEN: {
        Event.PREPARE: Phase.PREPARING,
        Event.RESTORE: Phase.RESTORING,
        Event.RETIRE: Phase.OPEN,
        Event.RESUME: Phase.OPEN,
        Event.HIGHER_EPOCH: Phase.OPEN,
    },
    Phase.PREPARING: {
        Event.PREPARE: Phase.PREPARING,
        Event.AT_BOUNDARIES: Phase.PREPARED,
        Event.PREPARE_RAISED: Phase.OPEN,
        **_OPENS,
    },
    Phase.PREPARED: {
        Event.PREPARE: Phase.PREPARED,
        Event.NOT_AT_BOUNDARIES: Phase.PREPARING,
        Event.COMMIT: Phase.COMMITTING,
        **_OPENS,
    },
    Phase.COMMITTING: {
        Event.PREPARE: Phase.COMMITTING,
        Event.COMMIT: Phase.COMMITTING,
        Event.WRITE_FAILED: Phase.COMMITTING,
        Event.WRITTEN: Phase.COMMITTED,
        **_OPENS,
    },
    Phase.COMMITTED: {
        Event.PREPARE: Phase.COMMITTED,
        Event.COMMIT: Phase.COMMITTED,
        **_OPENS,
    },
    Phase.RESTORING: {
        Event.RESTORE: Phase.RESTORING,
        Event.INSTALLED: Phase.RESTORED,
        Event.RESTORE_FAILED: Phase.OPEN,
        **dict.fromkeys(ENDS, Phase.RESTORING),
    },
    Phase.RESTORED: {
        Event.RESTORE: Phase.RESTORED,
        Event.RETIRE: Phase.RESTORED,
        **_OPENS,
    },
}


def allows(phase: Phase, event: Event) -> bool:
    """Whether the table has this move."""
    return event in NEXT[phase]


def step(phase: Phase, event: Event) -> Phase:
    """The phase after the event. Raises ValueError where the table has no such move."""
    try:
        return NEXT[phase][event]
    except KeyError:
        raise ValueError(f"no {event} while {phase}; only {', '.join(NEXT[phase])}") from None


def mermaid() -> str:
    """The table as a Mermaid state diagram; events with one effect share an arrow."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.OPEN}"]
    for phase, moves in NEXT.items():
        for after in Phase:
            events = [event for event, to in moves.items() if to is after]
            if events:
                lines.append(f"    {phase} --> {after}: {', '.join(events)}")
    return "\n".join(lines) + "\n"
