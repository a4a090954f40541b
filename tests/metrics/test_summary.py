"""Means, intervals, pass@k and bounds."""

import math
import random
from itertools import combinations

import pytest

from triocollect.metrics import RewardMean, Scores, bounds, pass_at_k


def result(task: int, rollout: int, reward: float | None, **more: object) -> dict[str, object]:
    scored = {} if reward is None else {"reward": reward}
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, **scored, **more}


def summary_of(*records: dict[str, object]):
    scores = Scores()
    for record in records:
        scores.add(record)
    return scores.summary("agent")


def test_with_one_rollout_a_task_the_interval_is_the_plain_t_interval() -> None:
    mean = RewardMean()
    for task, reward in enumerate([1.0, 2.0, 3.0, 4.0]):
        mean.add(task, reward)
    low, high = mean.interval()
    reach = 3.182446305 * (5 / 3) ** 0.5 / 2
    assert (low, high) == (pytest.approx(2.5 - reach), pytest.approx(2.5 + reach))


def test_repeats_that_always_agree_make_an_evaluation_no_surer() -> None:
    once, often = RewardMean(), RewardMean()
    for task, reward in enumerate([1.0, 0.0, 1.0, 1.0, 0.0]):
        once.add(task, reward)
        for _ in range(50):
            often.add(task, reward)
    assert often.interval() == pytest.approx(once.interval())


def test_an_interval_of_independent_tasks_covers_the_truth_about_nineteen_times_in_twenty() -> None:
    luck = random.Random(7)
    covered = 0
    for _ in range(400):
        mean = RewardMean(clusters=1024)
        for task in range(40):
            ability = luck.random()
            for _ in range(4):
                mean.add(task, float(luck.random() < ability))
        low, high = mean.interval()
        covered += low <= 0.5 <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_no_interval_of_rewards_within_0_and_1_reaches_beyond() -> None:
    mean = RewardMean()
    for task, reward in enumerate([1.0, 1.0, 1.0, 1.0, 0.0]):
        mean.add(task, reward)
    assert mean.interval() == (pytest.approx(0.8 - 2.776445105 * 0.2), 1.0)
    mean.add(7, 1.5)
    assert mean.interval().high > 1.0, "nobody knows a bound of those"


def test_one_task_alone_has_a_mean_and_no_interval() -> None:
    mean = RewardMean()
    mean.add(3, 1.0)
    mean.add(3, 0.0)
    assert mean.mean == 0.5
    assert mean.interval() is None


def test_a_long_run_keeps_no_more_than_its_clusters() -> None:
    mean = RewardMean(clusters=8)
    for task in range(1000):
        mean.add(task, 1.0)
    assert len(mean.repeats) == 8


@pytest.mark.parametrize(("tries", "passes", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (4, 4, 4), (3, 1, 3)])
def test_pass_at_k_is_the_share_of_all_draws_that_hold_a_pass(tries: int, passes: int, k: int) -> None:
    draws = list(combinations([True] * passes + [False] * (tries - passes), k))
    assert pass_at_k(tries, passes, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_goes_as_far_as_the_task_with_the_fewest_rollouts() -> None:
    summary = summary_of(
        result(0, 0, 1.0), result(0, 1, 0.0), result(0, 2, 0.0), result(1, 0, 0.0), result(1, 1, 1.0)
    )
    assert dict(summary.pass_at) == {1: pytest.approx((1 / 3 + 1 / 2) / 2), 2: pytest.approx((2 / 3 + 1) / 2)}


def test_a_reward_just_below_one_is_no_pass() -> None:
    assert dict(summary_of(result(0, 0, 0.99)).pass_at) == {1: 0.0}


def test_rewards_beyond_one_have_no_pass_at_k() -> None:
    assert summary_of(result(0, 0, 17.0), result(1, 0, 1.0)).pass_at is None


def test_masked_and_unscored_rollouts_are_counted_and_not_averaged() -> None:
    summary = summary_of(
        result(0, 0, 1.0, mask_sample=False),
        result(0, 1, 0.0, mask_sample=True),
        result(1, 0, None),
        {**result(1, 1, None), "reward": "good"},
    )
    assert (summary.rollouts, summary.rewards, summary.masked, summary.unscored) == (4, 1, 1, 2)
    assert summary.mean == 1.0


def test_no_rollouts_at_all_have_no_numbers() -> None:
    summary = summary_of()
    assert (summary.mean, summary.interval, summary.pass_at) == (None, None, None)


def test_the_bounds_close_in_on_the_mean_as_rows_finish() -> None:
    assert bounds(total=3.0, count=4, left=4) == (3 / 8, 7 / 8)
    assert bounds(total=3.0, count=4, left=0) == (3 / 4, 3 / 4)
    assert bounds(total=0.0, count=0, left=0) is None


HUGE = [[1e200, 0.0], [1e308] * 3, [1.7e308, -1.7e308], [1e308, 1e308, -1e308, -1e308]]


@pytest.mark.parametrize("rewards", HUGE)
def test_rewards_of_any_size_get_finite_statistics_or_none(rewards: list[float]) -> None:
    mean = RewardMean()
    for task, reward in enumerate(rewards):
        mean.add(task, reward)
    said = [mean.mean, *(mean.interval() or ()), *(bounds(mean.total, mean.count, 2) or ())]
    assert all(value is None or math.isfinite(value) for value in said)
    assert mean.interval() is None


def test_a_reward_beyond_every_float_counts_as_none() -> None:
    summary = summary_of(result(0, 0, 10**400), result(1, 0, 1.0))
    assert (summary.rewards, summary.unscored, summary.mean) == (1, 1, 1.0)
