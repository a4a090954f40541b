"""A row as JSON, in and out, with the bytes that orjson would write (what Gym's files hold). Pure.

Two things differ from plain msgspec. Floats from 1e16 on are spelled `1e+22`, where msgspec says `1e22`.
Integers over 64 bits keep their digits, where orjson makes floats of them.
"""

import json
import math
from typing import Final, TypeGuard

import msgspec

from triocollect.errors import UsageError
from triocollect.protocol.values import Json, JsonObject

MAX_DEPTH: Final = 500  # half of what Python's own JSON reader takes, which most servers use
_TOO_DEEP: Final = f"nested too deep (more than {MAX_DEPTH} levels)"
_FIRST_WIDE_FLOAT: Final = 1e16  # the first one spelled with an exponent


class _WideFloat(float):
    """A float whose spelling is ours: the encoder hands subclasses to the hook."""

    __slots__ = ()


def _read_float(digits: str) -> float:
    value = float(digits)
    if -_FIRST_WIDE_FLOAT < value < _FIRST_WIDE_FLOAT:
        return value
    if math.isinf(value):
        raise UsageError(f"the number {digits[:40]} is too large for a float")
    return _WideFloat(value)


def _write_wide_float(value: object) -> msgspec.Raw:
    if isinstance(value, _WideFloat):
        return msgspec.Raw(float.__repr__(value).encode())
    raise TypeError(f"{type(value).__name__} is not JSON")


_decode: Final = msgspec.json.Decoder(float_hook=_read_float).decode
encode_into: Final = msgspec.json.Encoder(enc_hook=_write_wide_float).encode_into


def decode_object(text: bytes) -> JsonObject:
    """One JSON object; of a repeated key the last one counts. Raises UsageError saying what is wrong."""
    try:
        value: Json = _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        raise UsageError(_fault(text)) from None
    except RecursionError:
        raise UsageError(_TOO_DEEP) from None
    if type(value) is not dict:
        raise UsageError(f"a row is a JSON object, and this is {name_of(value)}")
    # What has few brackets is not deep. Taking them out and measuring beats `count`, because `replace` skips
    # what is between them with memchr.
    brackets = 2 * len(text) - len(text.replace(b"[", b"")) - len(text.replace(b"{", b""))
    if brackets > MAX_DEPTH and _is_deep(value):
        raise UsageError(_TOO_DEEP)
    return value


def encode(value: Json) -> bytes:
    """The bytes of one value."""
    buffer = bytearray()
    encode_into(value, buffer)
    return bytes(buffer)


def is_integer(value: Json) -> TypeGuard[int]:
    """Whether this is a JSON integer, which `true` is not."""
    return type(value) is int


def name_of(value: Json) -> str:
    """What a value is, in words: 'a list', 'null', 'a number'."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def _is_deep(value: Json) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Json] = []
        for container in level:
            if type(container) is dict:
                below += container.values()
            elif type(container) is list:
                below += container
        level = below
        if not level:
            return False
    return True


def _fault(text: bytes) -> str:
    """Why a line was refused. Found out by looking at the line: the parser's own words can mislead.

    (It says "truncated" of a whole line that ends in half a surrogate pair.)
    """
    try:
        words = text.decode()
    except UnicodeDecodeError as error:
        return f"not valid UTF-8 at byte {error.start} of the line"
    if words.startswith("\ufeff"):
        return "a byte order mark in the middle of the file; remove it"
    return _fault_of_words(words)


def _fault_of_words(words: str) -> str:
    try:
        value: Json = json.loads(words, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return f"malformed JSON at character {error.pos + 1} of the line ({error.msg})"
    except UsageError as refusal:
        return str(refusal)
    except RecursionError:
        return _TOO_DEEP
    except ValueError:
        return "an integer of more than 4300 digits"
    return _fault_of_value(value)


def _fault_of_value(value: Json) -> str:
    """Why a line was refused that Python's own JSON reader takes."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return r"half of a surrogate pair (\ud800 to \udfff) stands alone, which no UTF-8 file can hold"
    return "JSON with a number out of range"


def _refuse_constant(name: str) -> None:
    raise UsageError(f"{name} is not JSON; use null or a string")
