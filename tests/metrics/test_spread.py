"""Numbers that others have printed in tables."""

import pytest

from triocollect.metrics.spread import deviation, mean, quantile, student_t


@pytest.mark.parametrize(
    ("freedom", "t"),
    [
        (1, 12.706204736),
        (2, 4.302652730),
        (3, 3.182446305),
        (4, 2.776445105),
        (10, 2.228138852),
        (31, 2.039513446),
        (100, 1.983971519),
        (200, 1.971896224),
        (201, 1.971836507),
        (1000, 1.962339081),
    ],
)
def test_student_s_t_is_that_of_the_printed_tables(freedom: int, t: float) -> None:
    assert student_t(freedom) == pytest.approx(t, abs=2e-9)


def test_a_quantile_between_two_values_lies_on_the_line_between_them() -> None:
    assert quantile([0.0, 1.0, 2.0, 10.0], 0.75) == 4.0
    assert quantile([7.0], 0.25) == 7.0


def test_the_deviation_is_that_of_a_sample() -> None:
    assert deviation([1.0, 3.0]) == pytest.approx(2**0.5)
    assert deviation([5.0]) == 0.0


def test_the_mean_of_finite_numbers_is_finite_and_a_spread_beyond_every_float_is_no_error() -> None:
    largest = 1.7976931348623157e308
    assert mean([largest] * 3) == pytest.approx(largest)
    assert mean([largest, -largest]) == 0.0
    assert deviation([1e200, 0.0]) == float("inf")
