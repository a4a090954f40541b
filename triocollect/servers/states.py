"""What a server writes into a record and reads back: Structs of its own, with foreign JSON in them. Pure.

The text is kept as it is, so numbers keep their digits and large conversations cost one encoding. A state
must not look as if it held the escapes of `participant/state.py`; where it might, its text is kept as one
string, in which nothing is an escape.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from triocollect.errors import StateError
from triocollect.protocol.values import NOT_JSON

S = TypeVar("S")

_ESCAPES: Final = (b'"$', b'"\\u0024')  # how a key may begin that would be read as an escape
_LINE_ENDS: Final = (b"\n", b"\r")


def keep(value: object) -> Raw:
    """The `state` of a record, on one line: that of a Struct, or of None."""
    text = msgspec.json.encode(value)
    if any(escape in text for escape in _ESCAPES):
        return Raw(msgspec.json.encode(text.decode()))
    return Raw(msgspec.json.format(text, indent=-1) if any(end in text for end in _LINE_ENDS) else text)


def give_back(state: Raw, kind: type[S]) -> S:
    """The value that was kept. Raises StateError for what was not kept here."""
    text = bytes(state)  # apart from the file that it was read from, which is large
    try:
        if text.startswith(b'"'):
            text = msgspec.json.decode(text, type=str).encode()
        return msgspec.json.decode(text, type=kind)
    except (ValueError, *NOT_JSON) as error:
        raise StateError(f"no {kind.__name__} is in this record: {error}") from error


def digest_of(named: Mapping[str, Raw]) -> str:
    """Hex sha256 of JSON fields, whatever their order and the white space in them."""
    digest = hashlib.sha256()
    for name in sorted(named):
        digest.update(msgspec.json.encode(name))
        digest.update(msgspec.json.format(named[name], indent=-1))
    return digest.hexdigest()
