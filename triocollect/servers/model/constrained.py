"""Which calls are decoded under a constraint: they are never cut, and never go on from a cut. Pure.

The state of a constraint lies between tokens and belongs to no prefix: a backend that goes on after one may
allow what the constraint forbids.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from triocollect.protocol.values import NOT_JSON

_FREE: Final = frozenset({"text"})  # formats that constrain nothing
_FREE_CHOICES: Final = ("auto", "none")
_CONSTRAINTS: Final = frozenset({"grammar", "json_schema", "structured_outputs", "regex", "ebnf"})
_NOTHING: Final = frozenset({b"null", b"false", b"{}", b"[]", b'""'})


class _Format(msgspec.Struct, frozen=True):
    type: str = "text"


class _Text(msgspec.Struct, frozen=True):
    format: _Format | None = None


class _Metadata(msgspec.Struct, frozen=True):
    extra_body: str = "{}"


def is_constrained(params: Mapping[str, Raw]) -> bool:
    """Whether what a request asks constrains its tokens; what cannot be understood is taken to."""
    try:
        return any(_constrains(name, value) for name, value in params.items() if bytes(value) not in _NOTHING)
    except NOT_JSON:
        return True


def _constrains(name: str, value: Raw) -> bool:
    match name:
        case "text":
            text = msgspec.json.decode(value, type=_Text)
            constrains = text.format is not None and text.format.type not in _FREE
        case "response_format":
            constrains = msgspec.json.decode(value, type=_Format).type not in _FREE
        case "tool_choice":
            constrains = msgspec.json.decode(value, type=str | dict[str, Raw]) not in _FREE_CHOICES
        case "extra_body":
            constrains = is_constrained(msgspec.json.decode(value, type=dict[str, Raw]))
        case "metadata":  # where Gym 0.7.0 carries `extra_body`, as JSON in a string
            carried = msgspec.json.decode(value, type=_Metadata).extra_body
            constrains = is_constrained(msgspec.json.decode(carried, type=dict[str, Raw]))
        case _:
            constrains = name in _CONSTRAINTS or name.startswith("guided_")
    return constrains
