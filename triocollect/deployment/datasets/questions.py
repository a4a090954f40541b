"""Rows whose answer is one message, for the verifiers. Pure."""

import random
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from triocollect.deployment.datasets.drawing import WORDS, between, pick, row, some
from triocollect.protocol.values import Json, JsonObject

_LETTERS: Final = "ABCDE"
_KINDS_OF_FIELD: Final = ("string", "integer", "boolean", "array", "enum", "object")


def arithmetic(dice: random.Random) -> Iterator[JsonObject]:
    """Sums and products of two to four numbers, for the numeric verifier."""
    while True:
        question, value = _question(dice)
        task = f"What is {question}? Give the number in \\boxed{{}}."
        yield row("numeric", task, {"expected_answer": value})


def echo(dice: random.Random) -> Iterator[JsonObject]:
    """Words to repeat, for the exact-match verifier."""
    while True:
        text = " ".join(pick(dice, WORDS) for _ in range(between(dice, 4, 24)))
        yield row("exact_match", f"Repeat exactly: {text}", {"expected_answer": text})


def multiple_choice(dice: random.Random) -> Iterator[JsonObject]:
    """Sums and products with three to five options of which one is right."""
    while True:
        question, value = _question(dice)
        letters = _LETTERS[: between(dice, 3, len(_LETTERS))]
        right = pick(dice, letters)
        wrong = some(dice, [off for off in range(-12, 13) if off], len(letters))
        options: list[Json] = [
            {letter: str(value if letter == right else value + off)}
            for letter, off in zip(letters, wrong, strict=True)
        ]
        lines = "\n".join(
            f"{letter}: {text}" for one in options if isinstance(one, dict) for letter, text in one.items()
        )
        task = f"What is {question}?\n\n{lines}\n\nAnswer with the letter of the right option."
        yield row("multiple_choice", task, {"options": options, "expected_answer": right})


def instructions(dice: random.Random) -> Iterator[JsonObject]:
    """Texts to write under two to five instructions; a quarter is graded by the share that is kept."""
    while True:
        topic, *words = some(dice, WORDS, 5)
        asked = list(_instructions(dice, words))
        task = " ".join([f"Write about the {topic}.", *(words for words, _, _ in asked)])
        expected: JsonObject = {
            "instruction_id_list": [name for _, name, _ in asked],
            "kwargs": [arguments for _, _, arguments in asked],
            "grading_mode": "fraction" if between(dice, 1, 4) == 1 else "binary",
        }
        yield row("instructions", task, expected)


def json_schema(dice: random.Random) -> Iterator[JsonObject]:
    """Things to describe in JSON of two to six fields."""
    while True:
        thing, *names = some(dice, WORDS, between(dice, 3, 7))
        schema = _object({name: _field(dice, pick(dice, _KINDS_OF_FIELD)) for name in names})
        text = msgspec.json.encode(schema).decode()
        task = f"Describe the {thing} with one JSON object, and nothing else, that fits this schema: {text}"
        yield row("json_schema", task, {"schema_str": text, "schema_type": "json"})


def _question(dice: random.Random) -> tuple[str, int]:
    numbers = [between(dice, 2, 99) for _ in range(between(dice, 2, 4))]
    operators = [pick(dice, "+-*") for _ in numbers[1:]]
    question = str(numbers[0])
    for operator, number in zip(operators, numbers[1:], strict=True):
        question += f" {operator} {number}"
    return question, _value(numbers, operators)


def _value(numbers: Sequence[int], operators: Sequence[str]) -> int:
    terms = [numbers[0]]
    for operator, number in zip(operators, numbers[1:], strict=True):
        if operator == "*":
            terms[-1] *= number
        else:
            terms.append(number if operator == "+" else -number)
    return sum(terms)


def _instructions(dice: random.Random, words: Sequence[str]) -> Iterator[tuple[str, str, JsonObject]]:
    """In words, by name, and with its arguments; the first asks for words that no text has by chance."""
    one, two, never, end = words
    yield f"Use the words {one} and {two}.", "keywords:existence", {"keywords": [one, two]}
    least, bullets = between(dice, 20, 60), between(dice, 2, 5)
    others: list[tuple[str, str, JsonObject]] = [
        (f"Never use the word {never}.", "keywords:forbidden_words", {"forbidden_words": [never]}),
        (
            f"Use at least {least} words.",
            "length_constraints:number_words",
            {"num_words": least, "relation": "at least"},
        ),
        (
            f"Make exactly {bullets} bullet points.",
            "detectable_format:number_bullet_lists",
            {"num_bullets": bullets},
        ),
        ("Give it a title in <<double angle brackets>>.", "detectable_format:title", {}),
        ("Use no comma.", "punctuation:no_comma", {}),
        (
            f'End with "And so the {end} it was".',
            "startend:end_checker",
            {"end_phrase": f"And so the {end} it was"},
        ),
        pick(
            dice,
            [
                ("Write everything in lower case.", "change_case:english_lowercase", {}),
                ("Write everything in capital letters.", "change_case:english_capital", {}),
            ],
        ),
    ]
    yield from some(dice, others, between(dice, 1, 4))


def _field(dice: random.Random, kind: str) -> JsonObject:
    match kind:
        case "string":
            return {"type": "string", "minLength": between(dice, 1, 8)}
        case "integer":
            low = between(dice, 1, 50)
            return {"type": "integer", "minimum": low, "maximum": low + between(dice, 1, 50)}
        case "array":
            items: JsonObject = {"type": pick(dice, ("string", "integer", "boolean"))}
            return {"type": "array", "items": items, "minItems": between(dice, 1, 3)}
        case "enum":
            return {"type": "string", "enum": [*some(dice, WORDS, 3)]}
        case "object":
            return _object({name: {"type": "integer", "minimum": 0} for name in some(dice, WORDS, 2)})
        case _:
            return {"type": "boolean"}


def _object(properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
