"""What `collect` returns: a run that adds up. Pure."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from triocollect.errors import Exit

Ending = Literal["complete", "incomplete", "nothing_succeeded", "left", "preempted", "interrupted"]


class Paths(msgspec.Struct, frozen=True):
    """Where everything is; None for what was not written."""

    output: str
    failures: str
    materialized: str
    run: str
    aggregate: str | None = None
    torn: str | None = None


class Continued(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier run had sent and not brought to an end, and what of that was kept.

    `rows` went on from where a checkpoint had cut them, with `work_s` seconds behind them there; then
    `calls_again` policy calls were under way, which are made again; of these the checkpoint kept `calls_cut`,
    with `tokens_kept` tokens in all, by its own count; one that is lost since is generated from its start.
    `calls_saved` had been answered and are not made again. `anew` rows started from their input again, and
    `lost_s` seconds of them are lost. Each is None where it is not known.
    """

    rows: int
    anew: int
    work_s: float | None = None
    calls_again: int | None = None
    calls_cut: int | None = None
    tokens_kept: int | None = None
    calls_saved: int | None = None
    lost_s: float | None = None


class Checkpoints(msgspec.Struct, frozen=True):
    """Those of one run: published and not, and the seconds that no row started for them."""

    published: int = 0
    failed: int = 0
    paused_s: float = 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run. `expected == succeeded + failed + left`, checked when it is made.

    `failed` counts rows whose last word is a sidecar line, `left` rows without a last word: not tried, cut
    off, or ended without a line by the server's wish. A row that failed and is cut off when it is tried again
    counts as failed, and the run has ended with rows left. `failures_by_class` adds up to `failed`. Counts
    cover all runs of the output; those ending in `_now` cover this run only. Times are seconds.
    """

    run: str | None  # its id; None where the input has no rows, and nothing was begun
    ending: Ending
    expected: int
    succeeded: int = 0
    failed: int = 0
    left: int = 0
    succeeded_now: int = 0
    failed_now: int = 0
    sends: int = 0  # every POST /run of this run, repeats included
    retried: int = 0  # sends of a row after its first of this run
    failures_by_class: Mapping[str, int] = {}
    failure_examples: Mapping[str, str] = {}  # the words of one for each class of this run's failures
    exhausted: int = 0  # failed so often (NEMO_GYM_MAX_ROLLOUT_ATTEMPTS) that no run tries them again
    mean_reward: float | None = None
    rewards: int = 0  # results that carried a reward, of all runs
    reward_interval: tuple[float, float] | None = (
        None  # 95 %, rollouts of one task taken together; from 10 tasks on
    )
    damaged: int = 0  # lines of earlier runs that cannot be read, left as they are
    notes: tuple[str, ...] = ()
    other_servers: bool = False  # rows in flight are continued on servers that the user starts anew
    checkpoint: str | None = None  # the id of the checkpoint that a stopped run goes on from
    continued: Continued | None = None  # where this run went on with what an earlier one left
    checkpoints: Checkpoints = Checkpoints()
    seconds: float
    paths: Paths

    def __post_init__(self) -> None:
        """Refuse a report that does not add up."""
        assert self.left >= 0, self
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
            "preempted": Exit.LEFT,
            "interrupted": Exit.INTERRUPTED,
        }[self.ending]
