r"""Makes the rows of the shipped data sets: pure, and the same bytes on every machine.

Of `random` only `Random(seed).random()` is used, the one method whose numbers Python keeps over its versions.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from triocollect.protocol.values import Json, JsonObject

ROWS: Final = 128  # of each data set
STEPS: Final = (2, 7)  # changes of one counter plan, fewest and most; `get_value` comes on top

_WORDS: Final = (
    "amber anchor autumn basket birch bridge candle canyon cedar clover copper coral crane drift ember "
    "fable falcon fern garnet harbor hazel heron indigo island ivory jasper juniper lantern linen maple "
    "meadow mint nectar oak olive onyx opal orchid pebble pine plum quartz raven reed river saffron sage"
)

_AMOUNT: Final[JsonObject] = {
    "type": "object",
    "properties": {"amount": {"type": "integer", "description": "A whole number from 1 to 1000000."}},
    "required": ["amount"],
    "additionalProperties": False,
}
_NO_ARGUMENTS: Final[JsonObject] = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}


def lines(name: str) -> bytes:
    """The whole JSONL file of a data set: ROWS rows, no two alike."""
    rows = map(msgspec.json.encode, _GENERATORS[name](random.Random(name)))  # noqa: S311  # not for secrets
    return b"".join(row + b"\n" for row in islice(_distinct(rows), ROWS))


def arithmetic(dice: random.Random) -> Iterator[JsonObject]:
    """Sums and products of two to four numbers, for the numeric verifier."""
    while True:
        numbers = [_between(dice, 2, 99) for _ in range(_between(dice, 2, 4))]
        operators = [_pick(dice, "+-*") for _ in numbers[1:]]
        question = str(numbers[0])
        for operator, number in zip(operators, numbers[1:], strict=True):
            question += f" {operator} {number}"
        task = f"What is {question}? Give the number in \\boxed{{}}."
        yield _row("numeric", task, {"expected_answer": _value(numbers, operators)})


def counter(dice: random.Random) -> Iterator[JsonObject]:
    """Plans of three to eight tool calls for the counter."""
    while True:
        words, verb_before, total = list[str](), "", 0
        for _ in range(_between(dice, *STEPS)):
            verb, amount = _pick(dice, ("add", "subtract")), _between(dice, 1, 50)
            words.append(str(amount) if verb == verb_before else f"{verb} {amount}")
            total += amount if verb == "add" else -amount
            verb_before = verb
        plan = ", then ".join([*words, "report the value"])
        yield _row("counter", f"{plan[0].upper()}{plan[1:]}.", {"expected_change": total}, _COUNTER)


def echo(dice: random.Random) -> Iterator[JsonObject]:
    """Words to repeat, for the exact-match verifier."""
    words = _WORDS.split()
    while True:
        text = " ".join(_pick(dice, words) for _ in range(_between(dice, 4, 24)))
        yield _row("exact_match", f"Repeat exactly: {text}", {"expected_answer": text})


_GENERATORS: Final[Mapping[str, Callable[[random.Random], Iterator[JsonObject]]]] = {
    "arithmetic": arithmetic,
    "counter": counter,
    "echo": echo,
}


def _tool(name: str, description: str, parameters: JsonObject) -> JsonObject:
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
        "strict": True,
    }


_COUNTER: Final[JsonObject] = {
    "instructions": "You have a counter. Change it one step at a time with your tools, then say its value.",
    "tools": [
        _tool("increment", "Add to the counter; answers with its value.", _AMOUNT),
        _tool("decrement", "Subtract from the counter; answers with its value.", _AMOUNT),
        _tool("get_value", "The value of the counter.", _NO_ARGUMENTS),
    ],
}


def _row(source: str, task: str, expected: JsonObject, params: JsonObject | None = None) -> JsonObject:
    message: Json = {"role": "user", "content": task}
    create: JsonObject = {"input": [message], **(params or {})}
    return {"responses_create_params": create, "task_source": source, **expected}


def _value(numbers: Sequence[int], operators: Sequence[str]) -> int:
    terms = [numbers[0]]
    for operator, number in zip(operators, numbers[1:], strict=True):
        if operator == "*":
            terms[-1] *= number
        else:
            terms.append(number if operator == "+" else -number)
    return sum(terms)


def _distinct(rows: Iterator[bytes]) -> Iterator[bytes]:
    seen = set[bytes]()
    for row in rows:
        if row not in seen:
            seen.add(row)
            yield row


def _between(dice: random.Random, low: int, high: int) -> int:
    return low + int(dice.random() * (high - low + 1))


def _pick(dice: random.Random, choices: Sequence[str]) -> str:
    return choices[_between(dice, 0, len(choices) - 1)]
