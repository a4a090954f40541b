"""Makes the rows of the shipped data sets: pure, and the same bytes on every machine."""

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from triocollect.deployment.datasets import games, questions
from triocollect.protocol.values import JsonObject

ROWS: Final = 128  # of each data set

_MAKERS: Final[Mapping[str, Callable[[random.Random], Iterator[JsonObject]]]] = {
    "arithmetic": questions.arithmetic,
    "blackjack": games.blackjack,
    "counter": games.counter,
    "echo": questions.echo,
    "instructions": questions.instructions,
    "json_schema": questions.json_schema,
    "multiple_choice": questions.multiple_choice,
    "sql": games.sql,
}


def lines(name: str) -> bytes:
    """The whole JSONL file of a data set: ROWS rows, no two alike."""
    rows = map(msgspec.json.encode, _MAKERS[name](random.Random(name)))  # noqa: S311  # not for secrets
    return b"".join(row + b"\n" for row in islice(_distinct(rows), ROWS))


def _distinct(rows: Iterator[bytes]) -> Iterator[bytes]:
    seen = set[bytes]()
    for row in rows:
        if row not in seen:
            seen.add(row)
            yield row
