"""Gym's raw overrides: `key=value`, `+key=value`, `++key=value`, nested keys with dots. Pure.

Source: Gym 0.7.0 hands them to Hydra 1.3, whose override grammar this follows.
"""

import re
from typing import Final, NamedTuple

from triocollect.config.literals import parse_literal
from triocollect.protocol.values import Json

_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")


class Override(NamedTuple):
    """One override: as it was spelled (`++a.b`), its dotted key (`a.b`), its value."""

    spelled: str
    key: str
    value: Json


def parse_override(token: str) -> Override:
    """Read one argument of the command line. Raises ValueError, in words, for what is no override."""
    if token.startswith("~"):
        raise ValueError(f"{token}: deleting a key is not supported; leave it out, or set it to null")
    spelled, equals, text = token.partition("=")
    key = spelled.removeprefix("+").removeprefix("+")
    if not equals:
        raise ValueError(f"{token}: neither a flag nor an override (key=value)")
    if not _KEY.fullmatch(key):
        raise ValueError(f"{token}: {spelled!r} is not a key (words joined by dots, before the '=')")
    if "${" in text:
        raise ValueError(f"{spelled} (command line): ${{…}} is not resolved here; write the value itself")
    try:
        return Override(spelled, key, parse_literal(text))
    except ValueError as fault:
        raise ValueError(f"{spelled} (command line): {fault}") from None
