"""Verifier: the rollout's last words are JSON that fits the row's schema. Stateless."""

import re
from typing import Final, Literal

import msgspec

from triocollect.protocol.values import Json, JsonObject
from triocollect.servers.resources.schemas import misfit
from triocollect.servers.resources.source import Verdict

_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)
_MOST_TOLD: Final = 300  # characters of what is wrong, which may repeat the whole answer
_NO_JSON: Final = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)


class Expected(msgspec.Struct, frozen=True):
    """Fields of the row, as Gym 0.7.0's `structured_outputs` has them: the schema is JSON in a string."""

    schema_str: str
    schema_type: Literal["json"] = "json"


def verify(answer: str, expected: Expected) -> Verdict:
    """Reward 1.0 where the answer, or the one fenced block in it, is JSON that fits; else 0.0.

    Raises msgspec.ValidationError for a schema that is none.
    """
    try:
        schema: JsonObject = msgspec.json.decode(expected.schema_str, type=dict)
    except _NO_JSON as problem:
        raise msgspec.ValidationError(f"`schema_str`: {problem}") from None
    try:
        fault = misfit(_read(answer), schema)
    except _NO_JSON as problem:
        fault = f"no JSON: {problem}"
    except ValueError as problem:
        raise msgspec.ValidationError(f"`schema_str`: {str(problem)[:_MOST_TOLD]}") from None
    return Verdict(float(fault is None), {"validation_error": None if fault is None else fault[:_MOST_TOLD]})


def _read(answer: str) -> Json:
    blocks: list[str] = _FENCED.findall(answer)
    value: Json = msgspec.json.decode(blocks[0] if len(blocks) == 1 else answer)
    return value
