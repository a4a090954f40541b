"""One SQLite database as a value: opened for one statement, and written down again. Pure but for the clock.

All that a next statement can depend on is in the value: the database's own bytes, what `last_insert_rowid()`
and `changes()` say, how many random numbers were drawn, and what an open transaction goes back to. A
statement reaches nothing but its database, and is held to limits that count the same on every machine: its
steps, its memory, its bytes. The clock is the last of them, for statements made to be slow.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from triocollect.protocol.values import JsonObject
from triocollect.servers.resources.savepoints import Mark, Moved, moved
from triocollect.servers.resources.statements import MOST_BYTES, Remembered, Statements, connect

# One may be refused by SQLite, which can also be out of the memory it may have, or never get as far: it holds
# a null character, or half a surrogate pair.
FAULTS = (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError)


class Database(msgspec.Struct, frozen=True):
    """The state of a session. `content`: SQLite's own file.

    `marks`: the open transaction and its savepoints, outermost first.
    """

    seed: int
    effects: int = 0
    content: bytes = b""
    remembered: Remembered = Remembered()
    marks: tuple[Mark, ...] = ()


class Answered(NamedTuple):
    """What came of a statement; the database is the same object where nothing of it changed."""

    database: Database
    output: JsonObject


def execute(database: Database, sql: str) -> Answered:
    """Run one statement. What is wrong with it is in the output, as `error`."""
    with _opened(database) as statements:
        try:
            output = statements.run(sql)
        except FAULTS as fault:
            output = {"error": _told(statements, fault)}
        else:
            if statements.transacting is not None:
                return _transacted(database, moved(database.content, database.marks, *statements.transacting))
        return Answered(_after(database, statements), output)


def execute_script(database: Database, sql: str) -> Database:
    """Run statements, transactions not among them. Raises ValueError, saying what is wrong with them."""
    with _opened(database) as statements:
        try:
            for statement in _split(sql):
                statements.run(statement)
                if statements.transacting is not None:  # before a next one is taken for it
                    raise ValueError("no transactions here")
        except FAULTS as fault:
            raise ValueError(_told(statements, fault)) from None
        return _after(database, statements)


def same_content(one: Database, other: Database) -> bool:
    """Whether the same tables hold the same rows, in whatever order they came to be there."""
    try:
        return _tables(one) == _tables(other)
    except FAULTS:  # a table that takes too long to read, or too much, by an expression in it
        return False


@contextlib.contextmanager
def _opened(database: Database) -> Iterator[Statements]:
    with contextlib.closing(connect(database.content)) as connection:
        yield Statements(
            connection,
            seed=database.seed,
            remembered=database.remembered,
            in_transaction=bool(database.marks),
        )


def _after(database: Database, statements: Statements) -> Database:
    """Also a statement that failed can have changed something: `INSERT OR FAIL`, `INSERT OR ROLLBACK`.

    Unlike with a connection, `last_insert_rowid()` does not tell of what it inserted.
    """
    content, marks = statements.end(), database.marks
    if content is None:  # it rolled the whole transaction back
        content, marks = marks[0].content, ()
    now = msgspec.structs.replace(
        database,
        content=content,
        remembered=statements.remembered,
        marks=marks,
    )
    return database if now == database else now


def _transacted(database: Database, to: Moved | str) -> Answered:
    if isinstance(to, str):
        return Answered(database, {"error": to})
    return Answered(msgspec.structs.replace(database, content=to.content, marks=to.marks), {"changes": 0})


def _told(statements: Statements, fault: Exception) -> str:
    return statements.refused or str(fault) or "the statement takes too much memory"


def _tables(database: Database) -> dict[str, list[bytes]]:
    with _opened(database) as statements:
        return statements.tables()


def _split(script: str) -> Iterator[str]:
    """Its statements: a semicolon ends one unless it stands in a text, a comment or a trigger.

    Raises ValueError for one that is too long: each piece of it is looked at with all before it.
    """
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if len(statement) > MOST_BYTES + 1:
            raise ValueError(f"a statement is longer than {MOST_BYTES} bytes: {statement[:40]!r}…")
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip("; \t\r\n"):
        yield statement
