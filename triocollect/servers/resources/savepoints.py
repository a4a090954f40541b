"""An open transaction and its savepoints as a value: what each would go back to. Pure.

A connection would forget them between two statements, and no file of SQLite's holds them.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

Move: TypeAlias = Literal["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "ROLLBACK TO"]

MOST: Final = 8


class Mark(msgspec.Struct, frozen=True):
    """What a transaction (no name) or a savepoint goes back to: SQLite's own file."""

    name: str | None
    content: bytes


class Moved(NamedTuple):
    """Where a move leads to."""

    content: bytes
    marks: tuple[Mark, ...]


def moved(content: bytes, marks: tuple[Mark, ...], move: Move, name: str | None) -> Moved | str:
    """The content and the marks after a move; or in SQLite's words why there is no such move now."""
    if move in ("BEGIN", "SAVEPOINT"):
        return _deeper(content, marks, name)
    if move in ("COMMIT", "ROLLBACK"):
        if not marks:
            return f"cannot {move.lower()} - no transaction is active"
        return Moved(content if move == "COMMIT" else marks[0].content, ())
    places = [place for place, mark in enumerate(marks) if _same(mark.name, name)]
    if not places:
        return f"no such savepoint: {name}"
    place = places[-1]
    if move == "RELEASE":
        return Moved(content, marks[:place])
    return Moved(marks[place].content, marks[: place + 1])


def _deeper(content: bytes, marks: tuple[Mark, ...], name: str | None) -> Moved | str:
    if name is None and marks:
        return "cannot start a transaction within a transaction"
    if len(marks) == MOST:
        return f"there are {MOST} savepoints already"
    return Moved(content, (*marks, Mark(name, content)))


def _same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one.lower() == other.lower()
