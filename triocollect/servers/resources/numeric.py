r"""Verifier: the number that the rollout's last words end on is the expected one. Stateless, pure.

The number is the last one inside the last `\boxed{...}`, or without such a box the last one of the whole
text. Known forms: sign, thousands commas (1,234.5), decimals, exponents of up to three digits. Fractions are
not read.
"""

import re
from decimal import Decimal
from typing import Annotated, Final

import msgspec

from triocollect.servers.resources.boxed import boxed
from triocollect.servers.resources.source import Verdict

# A sign right after a word, a digit or a bracket is an operator ("10-3"), not a part of the number. The
# exponent is short so that no text can make a number that takes long to subtract, or that cannot be.
_NUMBER: Final = re.compile(
    r"""(?:(?<![\w)\]}.])[-+\N{MINUS SIGN}])?
        (?:\d{1,3}(?:,\d{3})+(?!\d)|\d+|(?<!\d)(?=\.\d))
        (?:\.\d+)?
        (?:[eE][-+]?\d{1,3}(?!\d))?""",
    re.VERBOSE | re.ASCII,
)


class Expected(msgspec.Struct, frozen=True):
    """Fields of the row: the number, and how far off an answer may be."""

    expected_answer: int | float | str
    tolerance: Annotated[float, msgspec.Meta(ge=0)] = 1e-6


def verify(answer: str, expected: Expected) -> Verdict:
    """Reward 1.0 where the number is at most `tolerance` off, else 0.0; no number earns 0.0.

    Raises msgspec.ValidationError where the row expects something that holds no number.
    """
    target = last_number(str(expected.expected_answer))
    if target is None:
        raise msgspec.ValidationError(f"`expected_answer`: {expected.expected_answer!r} holds no number")
    found = last_number(answer)
    close = found is not None and abs(found - target) <= Decimal(str(expected.tolerance))
    return Verdict(float(close), {"extracted_answer": None if found is None else str(found)})


def last_number(text: str) -> Decimal | None:
    """The number that a text ends on, exactly; None if there is none."""
    inside = boxed(text)
    numbers = _NUMBER.findall(text if inside is None else inside)
    return Decimal(numbers[-1].replace(",", "").replace("\N{MINUS SIGN}", "-")) if numbers else None
