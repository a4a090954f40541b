"""2: attempts of a rollout increase, and each is sent once: every /run that has arrived, over all lives."""

import itertools
from collections import defaultdict

from attrs import define, field, frozen

from fuzz.invariants import holds
from fuzz.simulation.reading import code_of
from fuzz.simulation.request import Request

_NOTHING_RAN = {
    "checkpoint_open",
    "not_restored",
    "stale_attempt",
    "stale_epoch",
    "other_run",
    "duplicate_attempt",
}


def says_that_nothing_ran(request: Request) -> bool:
    """Whether the answer to a row does: its attempt may be sent again."""
    return code_of(request) in _NOTHING_RAN


@frozen
class Send:
    """One. `boot`: of the machine."""

    attempt: int
    request: Request
    boot: int

    @property
    def is_refused(self) -> bool:
        """The answer said that nothing ran."""
        return says_that_nothing_ran(self.request)

    @property
    def goes_on(self) -> bool:
        """From a checkpoint."""
        return self.request.header(b"x-continued") == b"1"


@define
class Sends:
    """By rollout, in order."""

    of: defaultdict[str, list[Send]] = field(factory=lambda: defaultdict(list))
    _boot: int = 0

    def arrives(self, rollout_id: str, attempt: int, request: Request) -> None:
        """One more."""
        self.of[rollout_id].append(Send(attempt, request, self._boot))

    def loses_power(self) -> None:
        """What was noted of a send may be gone with what nobody synced."""
        self._boot += 1

    def is_refused(self, rollout_id: str) -> bool:
        """Whether the last one was, of an attempt that goes on: it waits where it was."""
        return any(one.is_refused and one.goes_on for one in self.of[rollout_id][-1:])

    def is_overtaken(self, rollout_id: str, attempt: int) -> bool:
        """By a later attempt."""
        return any(one.attempt > attempt for one in self.of[rollout_id])

    def check(self) -> None:
        """Raises BrokenError."""
        for rollout_id, sends in self.of.items():
            for before, one in itertools.pairwise(sends):
                again = one.attempt == before.attempt and (before.is_refused or before.boot < one.boot)
                numbers = [each.attempt for each in sends]
                holds(2, one.attempt > before.attempt or again, f"{rollout_id} was sent as {numbers}")
