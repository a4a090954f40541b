"""Random numbers that a state can carry: a seed, and how many were drawn of it. Pure but for a new seed.

The n-th number of a seed is SplitMix64's (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
Generators", 2014): it needs none of those before, so the count is the whole state of the generator.
"""

import os
from typing import Final

_WORD: Final = (1 << 64) - 1
_SEED_BYTES: Final = 6  # a seed stays below 2**53: every JSON reader keeps it whole


def new_seed() -> int:
    """A seed of the operating system's."""
    return int.from_bytes(os.urandom(_SEED_BYTES), "big")


def word(seed: int, nth: int) -> int:
    """The nth number of a seed, from 0 on: 64 bits."""
    mixed = (seed + (nth + 1) * 0x9E3779B97F4A7C15) & _WORD
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _WORD
    return mixed ^ (mixed >> 31)


def below(limit: int, seed: int, nth: int) -> int:
    """The nth number of a seed as one of 0 ... limit - 1."""
    return word(seed, nth) * limit >> 64
