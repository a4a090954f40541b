"""The nth random number of a seed: SplitMix64 (Steele, Lea, Flood 2014), told here again, by the paper."""

from typing import Final

_GAMMA: Final = 0x9E3779B97F4A7C15
_MIXED_BY: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_TWO_64: Final = 1 << 64


def number(seed: int, nth: int) -> int:
    """64 bits, from the nth 0 on."""
    value = (seed + _GAMMA * (nth + 1)) % _TWO_64
    for shift, factor in _MIXED_BY:
        value = (value ^ (value >> shift)) * factor % _TWO_64
    return value ^ (value >> 31)


def below(limit: int, seed: int, nth: int) -> int:
    """Of 0 ... limit - 1: that share of all numbers."""
    return number(seed, nth) * limit // _TWO_64
