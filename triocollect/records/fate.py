"""Whether a record is a result or a failure: one rule for who writes it and for who reads it back. Pure."""

from typing import Final

import msgspec
from msgspec import Raw

from triocollect.protocol.ids import MOST_ATTEMPTS

UNKNOWN: Final = "unknown"  # the class of a failure that names none

_MOST_DIGITS: Final = len(str(MOST_ATTEMPTS))


def is_failure(*, failure_class: Raw | None, error: Raw | None, has_result: bool) -> bool:
    """A record with a failure class, or a runner's bare error in place of a result.

    `has_result`: there is a reward or a response. Null is none: optional fields are often dumped so.
    """
    return is_there(failure_class) or (is_there(error) and not has_result)


def is_there(field: Raw | None) -> bool:
    """Whether a field has a value."""
    return field is not None and bytes(field) != b"null"


def attempt_of(field: Raw | None) -> int | None:
    """An attempt as a record names it; None for what cannot be one."""
    text = b"" if field is None else bytes(field)
    return int(text) if text.isdigit() and len(text) < _MOST_DIGITS else None


def class_of(field: Raw | None) -> str:
    """A failure class as people read it and count by it."""
    return text_of(field) or UNKNOWN


def text_of(field: Raw | None) -> str:
    """A text as it is, anything else as its JSON; empty where there is nothing."""
    if field is None:
        return ""
    try:
        return msgspec.json.decode(field, type=str)
    except msgspec.MsgspecError:
        return bytes(field).decode(errors="replace")


def number_of(field: Raw | None) -> float | None:
    """A field as a number; None for anything else (true and false are numbers, as in Gym's averages)."""
    if field is None:
        return None
    text = bytes(field)
    if text in {b"true", b"false"}:
        return float(text == b"true")
    try:
        return msgspec.json.decode(text, type=float)
    except msgspec.MsgspecError:
        return None
