"""One SQLite database as a value: opened for one statement, and written down again. Pure but for the clock.

All that a next statement can depend on is in the value: the database's own bytes, what `last_insert_rowid()`
and `changes()` say, how many random numbers were drawn, and what an open transaction goes back to. A
statement reaches nothing but its database, and is held to limits by which it ends on a slow machine as on a
fast one.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from triocollect.protocol.values import Json, JsonObject
from triocollect.servers.resources.savepoints import Mark, Moved, moved
from triocollect.servers.resources.statements import Remembered, Statements, connect

# One may be refused by SQLite, or never get as far: it holds a null character, or half a surrogate pair.
FAULTS = (sqlite3.Error, sqlite3.Warning, ValueError)


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
            if statements.transacting is not None:
                return _transacted(database, moved(database.content, database.marks, *statements.transacting))
            output = {"error": statements.refused or str(fault)}
        return Answered(_after(database, statements), output)


def execute_script(database: Database, sql: str) -> Database:
    """Run statements, transactions not among them. Raises ValueError, saying what is wrong with them."""
    with _opened(database) as statements:
        try:
            for statement in _split(sql):
                statements.run(statement)
        except FAULTS as fault:
            own = "no transactions here" if statements.transacting is not None else statements.refused
            raise ValueError(own or str(fault)) from None
        return _after(database, statements)


def same_content(one: Database, other: Database) -> bool:
    """Whether the same tables hold the same rows, in whatever order they came to be there."""
    try:
        return _tables(one) == _tables(other)
    except sqlite3.Error:  # a table that takes too long to read, by an expression in it
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


def _tables(database: Database) -> dict[Json, list[str]]:
    with _opened(database) as statements:
        tables = statements.all("SELECT name FROM sqlite_schema WHERE type = 'table'")
        names = [str(name) for (name,) in tables if not str(name).startswith("sqlite_")]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        return {
            name: sorted(map(repr, statements.all(f"SELECT * FROM {quoted[name]}")))  # noqa: S608  # quoted
            for name in names
        }


def _split(script: str) -> Iterator[str]:
    """Its statements: a semicolon ends one unless it stands in a text, a comment or a trigger."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip("; \t\r\n"):
        yield statement
