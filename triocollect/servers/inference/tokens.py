"""The worker's tokens: a word with the white space before it is one. Pure."""

import re
from typing import Final

_PIECE: Final = re.compile(r"\s*\S+|\s+")


def pieces(text: str) -> tuple[str, ...]:
    """The tokens of a text; joined they are the text."""
    return tuple(_PIECE.findall(text))


def count(text: str) -> int:
    """How many tokens a text has."""
    return len(_PIECE.findall(text))
