"""How long it still takes."""

import random
from statistics import mean

import pytest

from triocollect.report.eta import Sample, eta


def test_before_anything_has_finished_there_is_no_estimate() -> None:
    assert eta(queued=10, ages=[3.0], durations=[], width=4) is None


def test_when_nothing_is_left_it_is_over() -> None:
    assert eta(queued=0, ages=[], durations=[], width=4) == 0


def test_rows_that_have_not_started_are_shared_by_those_that_run_at_once() -> None:
    assert eta(queued=100, ages=[], durations=[60.0] * 9, width=10) == 600


def test_the_age_of_a_running_row_counts() -> None:
    assert eta(queued=0, ages=[50.0], durations=[60.0] * 9, width=1) == 10


def test_a_row_that_has_run_long_is_judged_by_those_that_took_long() -> None:
    durations = [10.0] * 9 + [1000.0]
    assert eta(queued=0, ages=[100.0], durations=durations, width=1) == 900


def test_a_row_older_than_all_others_gets_the_usual_time_again() -> None:
    assert eta(queued=0, ages=[500.0], durations=[60.0] * 9, width=1) == 60


def test_the_end_is_never_sooner_than_the_longest_single_row() -> None:
    assert eta(queued=0, ages=[0.0, 59.0, 59.0, 59.0], durations=[60.0] * 9, width=4) == 60


def test_the_estimate_in_the_middle_of_a_simulated_run_is_near_the_truth() -> None:
    luck = random.Random(3)
    lengths = [luck.lognormvariate(4, 0.6) for _ in range(400)]
    width, middle = 20, 500.0
    free = [0.0] * width
    spans = []
    for length in lengths:
        begin = min(free)
        free[free.index(begin)] = begin + length
        spans.append((begin, begin + length))
    said = eta(
        queued=sum(begin > middle for begin, _ in spans),
        ages=[middle - begin for begin, end in spans if begin <= middle < end],
        durations=[end - begin for begin, end in spans if end <= middle],
        width=width,
    )
    assert said == pytest.approx(max(free) - middle, rel=0.2)


def test_a_sample_of_many_is_small_and_fair() -> None:
    sample = Sample(most=512)
    for value in range(100_000):
        sample.add(float(value))
    assert len(sample.values) == 512
    assert mean(sample.values) == pytest.approx(50_000, rel=0.1)
