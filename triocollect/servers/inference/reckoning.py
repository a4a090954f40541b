"""Sums and products, as the scripted model reads and works them out. Pure."""

import re
from typing import Final

# Bounded: the number must stay printable.
SUM: Final = re.compile(r"\d{1,15}(?:\s*[-+*]\s*\d{1,15}){1,20}")


def calculate(question: str) -> int:
    """The value of whole numbers joined by +, - and *, the products first."""
    total, product, sign = 0, 0, 1
    for operator, number in re.findall(r"([-+*]?)\s*(\d+)", question):
        if operator == "*":
            product *= int(number)
        else:
            total, product, sign = total + sign * product, int(number), -1 if operator == "-" else 1
    return total + sign * product
