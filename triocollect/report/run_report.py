"""What `collect` returns: a run that adds up. Pure."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from triocollect.errors import Exit

Ending = Literal["complete", "incomplete", "nothing_succeeded", "left", "interrupted"]


class Paths(msgspec.Struct, frozen=True):
    """Where everything is; None for what was not written."""

    output: str
    failures: str
    materialized: str
    run: str
    aggregate: str | None = None
    torn: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run. `expected == succeeded + failed + left`, checked when it is made.

    `failed` counts rows whose last word is a sidecar line, `left` rows without a last word: not tried, cut
    off, or ended without a line by the server's wish. `failures_by_class` adds up to `failed`. Counts cover
    all runs of the output; those ending in `_now` cover this run only. Times are seconds.
    """

    run: str
    ending: Ending
    expected: int
    succeeded: int
    failed: int
    left: int
    succeeded_now: int
    failed_now: int
    sends: int  # every POST /run of this run, repeats included
    retried: int  # sends of a row after its first of this run
    failures_by_class: Mapping[str, int]
    mean_reward: float | None
    rewards: int  # rows of this run that carried a reward
    reward_interval: tuple[float, float] | None = None  # 95 %, rollouts of one task taken together
    damaged: int  # lines of earlier runs that cannot be read, left as they are
    notes: tuple[str, ...]
    seconds: float
    paths: Paths

    def __post_init__(self) -> None:
        """Refuse a report that does not add up."""
        assert self.expected == self.succeeded + self.failed + self.left, self
        assert self.failed == sum(self.failures_by_class.values()), self

    @property
    def exit_code(self) -> Exit:
        """What the command line ends with."""
        return {
            "complete": Exit.OK,
            "incomplete": Exit.INCOMPLETE,
            "nothing_succeeded": Exit.INCOMPLETE,
            "left": Exit.LEFT,
            "interrupted": Exit.INTERRUPTED,
        }[self.ending]
