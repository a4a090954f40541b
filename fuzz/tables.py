"""What a statement leads to, by Python's own sqlite3: for whoever judges the account that a database wrote.

Two databases are the same where their schemas and rows are, those of an open transaction's beginnings too.
"""

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from fuzz.splitmix import number

_WORD_BYTES: Final = 8
_MOVE: Final = re.compile(
    r"\s*(BEGIN|COMMIT|END|ROLLBACK|SAVEPOINT|RELEASE)\b(?:\s+TRANSACTION)?(\s+TO)?(?:\s+SAVEPOINT)?\s*(\w*)",
    re.IGNORECASE,
)


class Mark(msgspec.Struct, frozen=True):
    """What an open transaction (no name) or a savepoint goes back to."""

    name: str | None
    content: bytes


class _Remembered(msgspec.Struct, frozen=True):
    draws: int


class Database(msgspec.Struct, frozen=True):
    """What the environment writes of a database. `content`: SQLite's own file, none of an empty one."""

    seed: int
    content: bytes
    remembered: _Remembered
    marks: tuple[Mark, ...] = ()


class _Query(msgspec.Struct, frozen=True):
    sql: str


Tables: TypeAlias = tuple[list[tuple], dict[str, list[tuple]]]
Seen: TypeAlias = tuple[Tables, list[tuple[str | None, Tables]], int]


def leads_to(before: bytes, arguments: bytes, after: bytes) -> bool:
    """Whether the second database is what the statement makes of the first."""
    sql = msgspec.json.decode(arguments, type=_Query).sql
    expected = _after(msgspec.json.decode(before, type=Database), sql)
    return _seen(expected) == _seen(msgspec.json.decode(after, type=Database))


def _after(before: Database, sql: str) -> Database:
    move = _MOVE.match(sql)
    if move is not None:
        verb = move[1].upper() + (" TO" if move[2] else "")
        return _marked(before, "COMMIT" if verb == "END" else verb, move[3].lower())
    draws = before.remembered.draws

    def drawn() -> bytes:
        nonlocal draws
        draws += 1
        return number(before.seed, draws - 1).to_bytes(_WORD_BYTES, "big")

    with _opened(before.content) as connection:
        connection.create_function("random", 0, lambda: int.from_bytes(drawn(), "big", signed=True))
        if before.marks:
            connection.execute("BEGIN")
        with contextlib.suppress(sqlite3.Error):  # it may have changed something all the same: OR FAIL
            connection.execute(sql).fetchall()
        rolled_back = before.marks and not connection.in_transaction
        connection.commit()
        content = before.marks[0].content if rolled_back else connection.serialize()
    marks = () if rolled_back else before.marks
    return Database(before.seed, content, _Remembered(draws), marks)


def _marked(before: Database, verb: str, name: str) -> Database:
    """After a statement that begins or ends a transaction, or part of one."""
    marks, content = before.marks, before.content
    at = max((nth for nth, mark in enumerate(marks) if (mark.name or "").lower() == name), default=0)
    match verb:
        case "BEGIN" | "SAVEPOINT":
            marks = (*marks, Mark(name if verb == "SAVEPOINT" else None, content))
        case "ROLLBACK TO":
            content, marks = marks[at].content, marks[: at + 1]
        case "RELEASE":
            marks = marks[:at]
        case "ROLLBACK":
            content, marks = marks[0].content, ()
        case _:
            marks = ()
    return Database(before.seed, content, before.remembered, marks)


def _seen(database: Database) -> Seen:
    marks = [(mark.name and mark.name.lower(), _tables(mark.content)) for mark in database.marks]
    return _tables(database.content), marks, database.remembered.draws


def _tables(content: bytes) -> Tables:
    with _opened(content) as connection:
        connection.text_factory = bytes
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
        names = [name.decode() for kind, name, _, _ in schema if kind == b"table"]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        rows = {name: connection.execute(f"SELECT * FROM {quoted[name]}").fetchall() for name in names}
        return schema, rows


@contextlib.contextmanager
def _opened(content: bytes) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        if content:
            connection.deserialize(content)
        yield connection
