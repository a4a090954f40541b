"""What is told to programs, as JSON; and text that holds what is no character, for both."""

from collections.abc import Mapping

import msgspec


def as_json(value: object) -> bytes:
    """JSON of a struct. A file name that is not UTF-8 has `\\xff` where a byte has no meaning."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_spelled_out(msgspec.to_builtins(value)))


def spelled_out(text: str) -> str:
    """Text whose surrogates are readable: `\\xff` where it is a file name with such a byte."""
    try:
        named = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        named = text.encode("utf-8", "backslashreplace")
    return named.decode("utf-8", "backslashreplace")


def _spelled_out(value: object) -> object:
    if isinstance(value, str):
        return spelled_out(value)
    if isinstance(value, Mapping):
        return {_spelled_out(key): _spelled_out(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled_out(part) for part in value]
    return value
