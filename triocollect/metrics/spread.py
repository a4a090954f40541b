"""Mean, spread and quantiles of a sample, and Student's t. Pure; every function wants at least one value.

Nothing here raises for numbers that are too large: what no float can hold comes out as infinity or NaN.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Final

_CONFIDENCE: Final = 0.95
_SERIES_UP_TO: Final = 200  # degrees of freedom; above, the expansion is right to nine digits


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; of finite values it is finite."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum is beyond every float, the mean is not
        scale = 2.0 ** -len(values).bit_length()
        return math.fsum(value * scale for value in values) / (len(values) * scale)


def sum_of_squares(values: Iterable[float]) -> float:
    """Infinity or NaN where it is not finite."""
    try:
        return math.fsum(value * value for value in values)
    except OverflowError:
        return math.inf


def deviation(values: Sequence[float]) -> float:
    """Sample standard deviation (divisor n - 1); 0 for a single value."""
    if len(values) == 1:
        return 0.0
    centre = mean(values)
    return math.sqrt(sum_of_squares(value - centre for value in values) / (len(values) - 1))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of a sorted sample lies, neighbours joined by a straight line."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


@lru_cache(maxsize=4096)
def student_t(freedom: int) -> float:
    """How many standard errors the 95 % two-sided t interval reaches to each side.

    Up to 200 degrees of freedom the finite series for P(|T| <= t) is inverted by halving, above it the
    expansion around the normal quantile is used (Abramowitz and Stegun, 26.7.3, 26.7.4 and 26.7.5).
    """
    if freedom > _SERIES_UP_TO:
        return _t_by_expansion(freedom)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _inside(middle, freedom) < _CONFIDENCE:
            low = middle
        else:
            high = middle
    return math.tan((low + high) / 2) * math.sqrt(freedom)


def _inside(angle: float, freedom: int) -> float:
    """P(|T| <= t) where t = tan(angle) * sqrt(freedom)."""
    odd = freedom % 2
    cosine = math.cos(angle)
    term = cosine if odd else 1.0
    series = term if freedom > 1 else 0.0
    for power in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (power - 1) / power
        series += term
    inside = math.sin(angle) * series
    return (angle + inside) * 2 / math.pi if odd else inside


def _t_by_expansion(freedom: int) -> float:
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def t_interval(centre: float, error: float, freedom: int) -> tuple[float, float]:
    """The 95 % interval around `centre` with standard error `error`; a point where the error is 0."""
    reach = student_t(freedom) * error
    return centre - reach, centre + reach
