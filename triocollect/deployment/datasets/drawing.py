"""What the makers of rows draw by, and what rows have in common. Pure.

Of `random` only `Random(seed).random()` is used, the one method whose numbers Python keeps over its versions.
"""

import random
from collections.abc import Sequence
from typing import Final, TypeVar

from triocollect.protocol.values import Json, JsonObject

T = TypeVar("T")

_WORDS: Final = (
    "amber anchor autumn basket birch bridge candle canyon cedar clover copper coral crane drift ember "
    "fable falcon fern garnet harbor hazel heron indigo island ivory jasper juniper lantern linen maple "
    "meadow mint nectar oak olive onyx opal orchid pebble pine plum quartz raven reed river saffron sage"
)
WORDS: Final = tuple(_WORDS.split())


def between(dice: random.Random, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    return low + int(dice.random() * (high - low + 1))


def pick(dice: random.Random, choices: Sequence[T]) -> T:
    """One of them."""
    return choices[between(dice, 0, len(choices) - 1)]


def some(dice: random.Random, choices: Sequence[T], count: int) -> list[T]:
    """So many different ones of them."""
    left = list(choices)
    return [left.pop(between(dice, 0, len(left) - 1)) for _ in range(count)]


def row(source: str, task: str, expected: JsonObject, params: JsonObject | None = None) -> JsonObject:
    """A row in Gym's format: a task for the model, and what the resources server judges by."""
    message: Json = {"role": "user", "content": task}
    create: JsonObject = {"input": [message], **(params or {})}
    return {"responses_create_params": create, "task_source": source, **expected}


def tool(name: str, description: str, parameters: JsonObject | None = None) -> JsonObject:
    """A tool that takes these parameters, all of them; none at all for None."""
    properties = parameters or {}
    schema: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema,
        "strict": True,
    }
