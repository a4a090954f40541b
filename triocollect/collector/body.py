"""The body of a reply: checked to be one JSON object within our limits, otherwise left as it came. Pure."""

import re
from array import array
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import Raw

MOST_DIGITS: Final = 4300  # of an integer: what Python's own reader takes
MAX_DEPTH: Final = 512  # below the 1,000 or so where parsers and readers of results give up
# An unterminated string ends with the text: the search must never begin again behind the same quote.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % (MOST_DIGITS + 1))
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_UP_AND_DOWN: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes: +1 and -1
_NOT_NUMBERS: Final = re.compile(rb"-?(?:NaN|Infinity)\b")

_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class BadBodyError(ValueError):
    """Why a body is not taken, in words that go into the failure record."""


def fields_of(body: bytes) -> dict[str, Raw]:
    """The top-level fields of a JSON object, in order, values as they came; the last of equal keys wins.

    Raises BadBodyError for anything that readers of the results could not read back: not UTF-8, not JSON,
    NaN or infinity, not an object, nested deeper than MAX_DEPTH.
    """
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and depth(body) > MAX_DEPTH:
        raise BadBodyError(f"the reply is nested too deep: more than {MAX_DEPTH} levels")
    try:
        body.decode()  # the parser passes over strings that it does not decode
        fields = _decode_fields(body)
    except UnicodeDecodeError as error:
        raise BadBodyError(f"the reply is not UTF-8 at byte {error.start}") from None
    except msgspec.ValidationError:
        raise BadBodyError(f"the reply is {_kind(body)}, not a JSON object") from None
    except (msgspec.DecodeError, RecursionError) as error:
        if not body.strip():
            raise BadBodyError("the reply is empty, not a JSON object") from None
        if (found := _NOT_NUMBERS.search(_STRING.sub(b'""', body))) is not None:
            raise BadBodyError(f"the reply holds {found.group().decode()}, which is not JSON") from None
        raise BadBodyError(f"the reply is damaged JSON: {error}") from None
    if _may_hold_long_number(body) and _LONG_NUMBER.search(_STRING.sub(b'""', body)):
        raise BadBodyError(f"the reply holds a number of more than {MOST_DIGITS} digits")
    return fields


def depth(body: bytes) -> int:
    """How deep the brackets of a JSON text nest. Linear, whatever the text is."""
    steps = _STRING.sub(b"", body).translate(_UP_AND_DOWN, _NOT_BRACKETS)
    return max(accumulate(array("b", steps)), default=0)


def _may_hold_long_number(body: bytes) -> bool:
    """Whether there may be more than MOST_DIGITS digits in a row: such a run crosses one of these places."""
    half = MOST_DIGITS // 2
    return any(
        body[place : place + half].isdigit() or body[place - half : place].isdigit()
        for place in range(half, len(body), half)
    )


def _kind(body: bytes) -> str:
    first = body.lstrip()[:1]
    kinds = {b"[": "a list", b'"': "a string", b"t": "true", b"f": "false", b"n": "null"}
    return kinds.get(first, "a number")
