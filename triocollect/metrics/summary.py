"""Mean reward with its interval, pass@k, and what the unfinished rows could still change. Pure."""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from triocollect.metrics.spread import sum_of_squares, t_interval
from triocollect.protocol.values import Json, JsonObject

PASSING_REWARD: Final = 1.0  # a rollout passes when its reward is at least this
_INDEX_LIMIT: Final = 1 << 63
TELLING_TASKS: Final = 10  # from so many on an interval is shown beside a run
INTERVAL_METHOD: Final = (
    "95 % t interval, rollouts of one task taken together, cut off at 0 and 1 where all rewards lie between"
)


class Interval(NamedTuple):
    """Lower and upper end."""

    low: float
    high: float


class RewardMean:
    """A running mean with an interval that knows that rollouts of one task resemble each other.

    The standard error is the cluster-robust one, sqrt(G/(G-1) * sum over tasks of (sum of deviations)^2) / n
    with t quantiles of G - 1 degrees of freedom, G being the number of tasks (Miller 2024, "Adding Error
    Bars to Evals", with the usual small-sample factor). With one rollout a task it is the plain t interval.

    With `clusters` given, tasks share that many clusters by their index: the memory is bounded, and a coarser
    grouping still keeps a task together, so the interval stays honest.

    Where every reward lies within 0..1 that is taken for their range: the interval is cut off there, which
    costs it no coverage.
    """

    __slots__ = ("_clusters", "_counts", "_sums", "count", "fractional", "total")

    def __init__(self, clusters: int | None = None) -> None:
        self._clusters = clusters
        self._counts: dict[int, int] = {}
        self._sums: dict[int, float] = {}
        self.count = 0
        self.total = 0.0
        self.fractional = True  # every reward within 0..1

    def add(self, task: int, reward: float) -> None:
        """Take one rollout's reward in."""
        cluster = task if self._clusters is None else task % self._clusters
        counts, sums = self._counts, self._sums
        counts[cluster] = counts.get(cluster, 0) + 1
        sums[cluster] = sums.get(cluster, 0.0) + reward
        self.count += 1
        self.total += reward
        self.fractional &= 0 <= reward <= 1

    @property
    def mean(self) -> float | None:
        """None before the first reward, and where the sum of the rewards is beyond every float."""
        return self.total / self.count if self.count and math.isfinite(self.total) else None

    @property
    def repeats(self) -> Mapping[int, int]:
        """Task (or cluster) to the number of its rewards."""
        return self._counts

    def interval(self, fewest: int = 2) -> Interval | None:
        """The 95 % interval of the mean; None with fewer than `fewest` tasks, and where it is not finite.

        That of a handful of tasks says little: see TELLING_TASKS.
        """
        groups = len(self._counts)
        centre = self.mean
        if centre is None or groups < fewest:
            return None
        squares = sum_of_squares(
            self._sums[cluster] - count * centre for cluster, count in self._counts.items()
        )
        error = math.sqrt(squares * groups / (groups - 1)) / self.count
        low, high = t_interval(centre, error, groups - 1)
        return _finite(Interval(max(low, 0.0), min(high, 1.0)) if self.fractional else Interval(low, high))


def _finite(interval: Interval) -> Interval | None:
    return interval if all(map(math.isfinite, interval)) else None


def bounds(total: float, count: int, left: int) -> Interval | None:
    """The mean if each of the `left` rows brought 0, and if each brought 1.

    None without any row, and where `total`, the sum of the `count` rewards known so far, is not finite.
    """
    rows = count + left
    return _finite(Interval(total / rows, (total + left) / rows)) if rows else None


def pass_at_k(tries: int, passes: int, k: int) -> float:
    """The chance that at least one of k tries passes, estimated without bias from `tries` >= k of them.

    1 - C(n - c, k) / C(n, k) (Chen et al. 2021, "Evaluating Large Language Models Trained on Code").
    """
    return 1 - math.comb(tries - passes, k) / math.comb(tries, k)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's rollouts in a few numbers.

    `rollouts` = rewards + `masked` + `unscored`. `pass_at[k]` is the mean over tasks for k = 1 up to the
    fewest rewards of any task; None where a reward lies outside 0..1, where "passing" has no agreed meaning.
    """

    label: str
    rollouts: int
    tasks: int
    rewards: int
    masked: int
    unscored: int
    mean: float | None
    interval: Interval | None
    pass_at: Mapping[int, float] | None


class Scores:
    """The rewards of one agent, taken in record by record; memory follows tasks."""

    def __init__(self) -> None:
        self.rewards = RewardMean()
        self._passes: dict[int, int] = {}
        self._masked = self._unscored = 0

    def add(self, record: JsonObject) -> None:
        """Take one result record in. Masked ones are counted and otherwise left out, as in Gym 0.7.0."""
        reward = as_number(record.get("reward"))
        if record.get("mask_sample"):
            self._masked += 1
        elif reward is not None:
            task = as_index(record.get("_ng_task_index"))
            self.rewards.add(task, reward)
            self._passes[task] = self._passes.get(task, 0) + (reward >= PASSING_REWARD)
        else:
            self._unscored += 1

    def summary(self, label: str) -> Summary:
        """What has come so far, under this name."""
        return Summary(
            label=label,
            rollouts=self.rewards.count + self._masked + self._unscored,
            tasks=len(self._passes),
            rewards=self.rewards.count,
            masked=self._masked,
            unscored=self._unscored,
            mean=self.rewards.mean,
            interval=self.rewards.interval(),
            pass_at=self._pass_at(),
        )

    def _pass_at(self) -> Mapping[int, float] | None:
        repeats = self.rewards.repeats
        if not repeats or not self.rewards.fractional:
            return None
        alike: dict[tuple[int, int], int] = {}  # (tries, passes) -> tasks: many tasks, few kinds
        for task, tries in repeats.items():
            kind = tries, self._passes[task]
            alike[kind] = alike.get(kind, 0) + 1
        return {
            k: _weighted((pass_at_k(tries, passes, k), tasks) for (tries, passes), tasks in alike.items())
            for k in range(1, min(repeats.values()) + 1)
        }


def _weighted(values: Iterable[tuple[float, int]]) -> float:
    pairs = list(values)
    return math.fsum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)


def as_index(value: Json) -> int:
    """A task or rollout index; 0 where the record has none (as in Gym 0.7.0), or none of 64 bits."""
    return value if isinstance(value, int) and -_INDEX_LIMIT <= value < _INDEX_LIMIT else 0


def as_number(value: Json) -> float | None:
    """A number or boolean; None for anything else, and for what no float can hold."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond every float
        return None
    return number if math.isfinite(number) else None
