"""A database that is written down and read back after every statement answers as a living connection."""

import contextlib
import sqlite3

from hypothesis import event, given, settings
from hypothesis import strategies as st

from fuzz.invariants import holds
from triocollect.servers.resources.database import Database, execute
from triocollect.servers.states import give_back, keep

NUMBERS = st.integers(1, 4)
NAMES = st.sampled_from(["a", "B", "b"])
SETUP = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, word TEXT UNIQUE)",
    "CREATE TABLE log (word)",
    "CREATE TRIGGER r AFTER DELETE ON t BEGIN INSERT INTO log VALUES (old.word); END",
)
EXPLAINED = ("EXPLAIN BEGIN", "EXPLAIN QUERY PLAN COMMIT", "EXPLAIN SAVEPOINT a")  # unlike SQLite's, never
STATEMENTS = st.one_of(
    st.builds("INSERT INTO t (word) VALUES ('{}')".format, NUMBERS),
    st.builds("INSERT OR IGNORE INTO t (word) VALUES ('{}'), ('x')".format, NUMBERS),
    st.builds("INSERT OR ROLLBACK INTO t (id) VALUES ({})".format, NUMBERS),
    st.builds("UPDATE OR FAIL t SET word = 'y' WHERE id >= {}".format, NUMBERS),
    st.builds("INSERT INTO t (word) VALUES ('{}') RETURNING id, word".format, NUMBERS),
    st.builds("UPDATE t SET word = word || '!' WHERE id >= {}".format, NUMBERS),
    st.builds("DELETE FROM t WHERE id = {}".format, NUMBERS),
    st.builds("SAVEPOINT {}".format, NAMES),
    st.builds("RELEASE {}".format, NAMES),
    st.builds("ROLLBACK TO {}".format, NAMES),
    st.sampled_from(
        [
            "BEGIN",
            "BEGIN IMMEDIATE",
            "COMMIT",
            "COMMIT; -- and that is all",
            "END",
            "ROLLBACK",
            "DROP TABLE log",
            "CREATE TABLE IF NOT EXISTS log (word)",
            "CREATE INDEX i ON t (word)",
            "SELECT last_insert_rowid()",
            "SELECT * FROM nowhere",
            "ANALYZE",
            "BEGIN; SELECT 1",
            "BEGIN; DELETE FROM t; COMMIT",
            "COMMIT; DROP TABLE t",
            "SAVEPOINT a; SELECT 1",
            "BEGIN and then",
            *EXPLAINED,
        ]
    ),
)
LOOKS = (
    "SELECT * FROM t ORDER BY id",
    "SELECT name, sql FROM sqlite_schema",
    "SELECT * FROM sqlite_sequence",
)


def of_a_connection(connection, sql):
    """Rows, or "wrong"."""
    if sql in EXPLAINED:
        return "wrong"
    try:
        return [list(row) for row in connection.execute(sql)]
    except sqlite3.Error:
        return "wrong"


@settings(max_examples=150, deadline=None)
@given(st.lists(STATEMENTS, max_size=25))
def test_it_answers_as_a_connection_that_lives_on(statements):
    database = Database(1)
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for sql in (*SETUP, *statements):
            database, output = execute(give_back(keep(database), Database), sql)
            answer = "wrong" if "error" in output else output.get("rows", [])
            living = of_a_connection(connection, sql)
            holds(13, answer == living, f"{sql}: {answer}; a living connection says {living}")
            same = bool(database.marks) == connection.in_transaction
            holds(13, same, f"{sql}: another transaction than in a living connection")
            for look in LOOKS:
                here, there = execute(database, look).output["rows"], of_a_connection(connection, look)
                holds(13, here == there, f"after {sql} there is {here}; in a living connection {there}")
        event(f"in a transaction at the end: {connection.in_transaction}")
