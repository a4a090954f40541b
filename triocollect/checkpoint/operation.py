"""What all operations of the protocol have in common: whom they concern, and how they end.

All participants of a kind at once, kinds in order: closed from the episodes to what they call, opened in
reverse.
"""

from collections.abc import Sequence
from typing import Final, TypedDict

import trio
from attrs import frozen

from triocollect.checkpoint.line import is_passing
from triocollect.checkpoint.participants import Participant, settle
from triocollect.errors import ControlError
from triocollect.protocol.messages import Kind, Resume, Resumed

CLOSING: Final[tuple[Kind, ...]] = ("environment", "model", "agent", "resources")
RESUME_PATIENCE_S: Final = 10.0  # for each kind; then the next kind is opened, and this one is owed
RESUME_SLACK_S: Final = 5.0  # for all kinds together, beyond the deadline of the operation
_TURNS: Final = 3  # of a kind, where the machine sleeps again and again
LEAST_RESUME_S: Final = 1.0  # also where this process stood still meanwhile, and the deadline is long over


class Common(TypedDict):
    """What every call says; its budget is put in when it is sent."""

    run: str
    epoch: int
    operation: int
    budget_ms: int
    lease_ms: int


@frozen
class Owed:
    """A resume that nobody answered. After `until` (monotonic seconds) the participant's lease is over.

    Unless it took a call up late, for it was suspended: then it is closed for as much longer, refuses
    retires meanwhile, and these are repeated.
    """

    resume: Resume
    until: float


class Operation:
    """One operation, from its first call to its resume."""

    def __init__(self, participants: Sequence[Participant], common: Common) -> None:
        self.participants: Final = tuple(participants)
        self.common: Final = common
        self.boots: Final[dict[Participant, str]] = {}  # of those that it has closed

    @property
    def number(self) -> int:
        """Counts within the epoch."""
        return self.common["operation"]

    def of(self, kind: Kind) -> tuple[Participant, ...]:
        """The participants of a kind."""
        return tuple(participant for participant in self.participants if participant.kind == kind)

    def check(self, participant: Participant, boot: str, phase: str, expected: str) -> None:
        """Raise ControlError unless the process that was closed answers, from the phase expected."""
        if boot != self.boots.get(participant):
            raise participant.fault("restarted in the middle of the operation")
        if phase != expected:
            raise participant.fault(f"is {phase}, not {expected}")

    async def resume(self, deadline: float) -> dict[Participant, Owed]:
        """Open all again, which is also the abort; returns what stays owed.

        A participant that has not heard of the operation learns that it is over. The time until `deadline`
        (monotonic seconds) and a slack is shared out: a kind that is silent takes no other kind's part of it.
        """
        resume = Resume(**self.common)
        until = max(deadline, trio.current_time()) + RESUME_SLACK_S
        owed: dict[Participant, Owed] = {}
        for left, kind in zip(range(len(CLOSING), 0, -1), reversed(CLOSING), strict=True):
            for participant in await _unanswered(self.of(kind), resume, until, left):
                owed[participant] = Owed(resume, participant.lease_until)
        return owed


async def _unanswered(
    participants: Sequence[Participant], resume: Resume, until: float, shares: int
) -> list[Participant]:
    """Open these, for one of the shares of the time; who has not answered then."""
    left = list(participants)

    async def one(participant: Participant) -> None:
        if await is_resumed(participant, resume):
            left.remove(participant)

    for _ in range(_TURNS):
        left_s = max(until - trio.current_time(), LEAST_RESUME_S)
        with trio.move_on_after(min(RESUME_PATIENCE_S, left_s / shares)) as patience:
            await settle(tuple(left), one)
        # A machine that slept may have used it all up before anybody was asked.
        late_s = trio.current_time() - patience.deadline
        if not (patience.cancelled_caught and late_s > LEAST_RESUME_S):
            break
    return left


async def is_resumed(participant: Participant, resume: Resume) -> bool:
    """Send a resume; whether it needs no repetition: done, or refused by a participant that knows better."""
    try:
        await participant.post("resume", resume, Resumed)
    except ControlError as error:
        return error.code is not None and not is_passing(error)  # without a code it is no refusal
    return True
