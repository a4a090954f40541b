"""What the scripted model writes where a task asks for words of a certain form. Pure."""

import re
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final, Literal

import msgspec

from triocollect.protocol.values import Json
from triocollect.servers.inference.moves import AT_A_LOSS, Answer
from triocollect.servers.inference.reckoning import SUM, calculate

_OPTION: Final = re.compile(r"^([A-Z]): (.+)$", re.MULTILINE)
_WAYS_TO_CHOOSE: Final = ("\\boxed{%s}", "The answer is %s.", "Answer: %s", "It is this one:\n(%s)")

_ABOUT: Final = re.compile(r"^Write about (?:the )?([^.\n]+)\.")
_WORDS: Final = re.compile(r"Use the words ([^.\n]+)\.")
_NEVER: Final = re.compile(r"Never use the word (\w+)\.")
_LENGTH: Final = re.compile(r"Use (at least|less than) (\d{1,4}) words\.")
_BULLETS: Final = re.compile(r"Make exactly (\d{1,2}) bullet points\.")
_BEGIN: Final = re.compile(r'Begin with "([^"\n]+)"\.')
_END: Final = re.compile(r'End with "([^"\n]+)"\.')
_FILLER: Final = "this is what one may say of it and there is more to tell when evening comes"
_PLAIN_LENGTH: Final = 12

_SCHEMA: Final = re.compile(r"fits this schema: (\{.*\})", re.DOTALL)


def choose(task: str, dice: int, *, right: bool) -> Answer | None:
    """The letter of the option that holds the value of a sum; None where there are no options."""
    options = _OPTION.findall(task)
    if not options or (question := SUM.search(task)) is None:
        return None
    value = str(calculate(question[0]))
    places = [place for place, (_, text) in enumerate(options) if text == value]
    if not places:
        return AT_A_LOSS
    letter, _ = options[(places[0] + (not right)) % len(options)]
    return Answer(_WAYS_TO_CHOOSE[dice // 10 % len(_WAYS_TO_CHOOSE)] % letter)


def write(task: str, *, right: bool) -> Answer | None:
    """A text that keeps to the instructions; a wrong one forgets the words to use. None for other tasks."""
    if (topic := _ABOUT.search(task)) is None:
        return None
    wanted = _WORDS.search(task)
    words = wanted[1].replace(" and ", ", ").split(", ") if wanted is not None and right else []
    length = _LENGTH.search(task)
    most = int(length[2]) if length is not None and length[1] == "at least" else _PLAIN_LENGTH
    banned = set(_NEVER.findall(task))
    filler = cycle([word for word in _FILLER.split() if word not in banned])
    lines = list(_lines(task, [topic[1], *words, *islice(filler, most)]))
    if "Give it a title" in task:
        lines.insert(0, f"<<{topic[1]}>>")
    if (begin := _BEGIN.search(task)) is not None:
        lines.insert(0, begin[1])
    if (end := _END.search(task)) is not None:
        lines.append(end[1])
    text = "\n".join(lines)
    if "in capital letters" in task:
        return Answer(text.upper())
    return Answer(text.lower() if "in lower case" in task else text)


def _lines(task: str, words: list[str]) -> Iterator[str]:
    if (bullets := _BULLETS.search(task)) is None:
        yield " ".join(words) + "."
        return
    count = int(bullets[1])
    for nth in range(count):
        yield "* " + (" ".join(words[nth::count]) or "and so on")


class _Schema(msgspec.Struct, frozen=True):
    """As much of JSON Schema as the shipped tasks use."""

    type: Literal["object", "array", "string", "integer", "number", "boolean", "null"] = "object"
    enum: tuple[str, ...] = ()
    properties: dict[str, "_Schema"] = {}
    items: "_Schema | None" = None
    min_items: int = msgspec.field(name="minItems", default=1)
    min_length: int = msgspec.field(name="minLength", default=1)
    minimum: int = 1


_decode_schema: Final = msgspec.json.Decoder(_Schema).decode


def fill_in(task: str, *, right: bool) -> Answer | None:
    """JSON that fits the schema in the task; a wrong one leaves its last property out. None without one."""
    if (found := _SCHEMA.search(task)) is None:
        return None
    try:
        example = _example(_decode_schema(found[1]))
    except (msgspec.DecodeError, RecursionError):
        return AT_A_LOSS
    if not right and isinstance(example, dict) and example:
        example.popitem()
    return Answer(msgspec.json.encode(example).decode())


def _example(schema: _Schema) -> Json:
    match schema.type:
        case "object":
            return {name: _example(one) for name, one in schema.properties.items()}
        case "array":
            item = _Schema("null") if schema.items is None else schema.items
            return [_example(item) for _ in range(min(schema.min_items, 100))]
        case "string":
            return schema.enum[0] if schema.enum else "a" * min(schema.min_length, 100)
        case "integer" | "number":
            return schema.minimum
        case "boolean":
            return True
        case "null":
            return None
