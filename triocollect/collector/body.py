"""The body of a reply: checked to be one JSON object within our limits, otherwise left as it came. Pure."""

import re
from typing import Final

import msgspec
from msgspec import Raw

MAX_DEPTH: Final = 512  # below the 1,000 or so where parsers and readers of results give up
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
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
        return _decode_fields(body)
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


def depth(body: bytes) -> int:
    """How deep the brackets of a JSON text nest. Linear in its size for each level, not recursive."""
    brackets = _STRING.sub(b"", body).translate(_ONE_KIND, _NOT_BRACKETS)
    levels = 0
    while brackets:
        peeled = brackets.replace(b"[]", b"")
        if len(peeled) == len(brackets):
            return levels  # unbalanced: the parser says so
        brackets, levels = peeled, levels + 1
    return levels


def _kind(body: bytes) -> str:
    first = body.lstrip()[:1]
    kinds = {b"[": "a list", b'"': "a string", b"t": "true", b"f": "false", b"n": "null"}
    return kinds.get(first, "a number")
