"""A database of one's own: what it answers, that it reaches nothing else, and that it goes on anywhere."""

import contextlib
import sqlite3
import tracemalloc

import msgspec
import pytest

from triocollect.servers.resources.database import Database, execute, execute_script, same_content
from triocollect.servers.resources.sql import SqlSource
from triocollect.servers.resources.statements import MOST_BYTES, MOST_READ, MOST_ROWS, MOST_SHOWN
from triocollect.servers.states import give_back, keep

SOURCE = SqlSource()
SETUP = """
CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, word TEXT);
INSERT INTO t (word) VALUES ('a;b'), ('c')
"""
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"

# A million comparisons in one step of SQLite's.
SLOW = "(x || printf('%.*c', 9900, 'a')) LIKE '%' || printf('%.*c', 97, 'a') || 'b'"


@pytest.fixture
def database() -> Database:
    return execute_script(Database(7), SETUP)


def after(database: Database, *statements: str) -> Database:
    for sql in statements:
        database, output = execute(database, sql)
        assert "error" not in output, (sql, output)
    return database


def rows(database: Database, sql: str) -> list:
    return execute(database, sql).output["rows"]


def called(state: Database, sql: str):
    return SOURCE.call(state, "query", msgspec.json.encode({"sql": sql}))


def test_a_statement_is_answered_with_rows_or_with_the_number_of_changes(database) -> None:
    assert execute(database, "SELECT * FROM t").output == {
        "columns": ["id", "word"],
        "rows": [[1, "a;b"], [2, "c"]],
    }
    assert execute(database, "UPDATE t SET word = 'd'").output == {"changes": 2}
    returned = execute(database, "INSERT INTO t (word) VALUES ('e') RETURNING id")
    assert returned.output["rows"] == [[3]]
    assert len(rows(returned.database, "SELECT * FROM t")) == 3


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM u", "no such table: u"),
        ("INSERT INTO t VALUES (1, 'twice')", "UNIQUE constraint failed"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT '\0'", "null character"),
        ("SELECT '\ud800'", "surrogates"),
        ("COMMIT", "no transaction is active"),
        ("ROLLBACK TO s", "no such savepoint: s"),
        ("BEGIN; INSERT INTO t (word) VALUES ('d'); COMMIT", "one statement at a time"),
        ("SAVEPOINT s; SELECT 1", "one statement at a time"),
        ("BEGIN with much", "syntax error"),
        ("EXPLAIN BEGIN", "EXPLAIN of a transaction's statement is not available"),
        ("explain query plan SAVEPOINT s", "EXPLAIN of a transaction's statement is not available"),
    ],
)
def test_wrong_sql_is_an_answer_and_changes_nothing(database, sql: str, fault: str) -> None:
    same, output = execute(database, sql)
    assert fault in output["error"]
    assert same is database


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '{path}' AS other",
        "VACUUM INTO '{path}'",
        "VACUUM",
        "DETACH DATABASE main",
        "PRAGMA journal_mode = WAL",
        "PRAGMA max_page_count = 1000000",
        "PRAGMA temp_store_directory = '{path}'",
        "SELECT load_extension('{path}')",
        "CREATE VIRTUAL TABLE v USING fts5(a)",
        "CREATE TEMP TABLE q (a)",
    ],
)
def test_a_statement_reaches_nothing_but_its_database(database, tmp_path, sql: str) -> None:
    same, output = execute(database, sql.format(path=tmp_path / "file"))
    assert "not available" in output["error"] or "not authorized" in output["error"]
    assert same is database
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        (f"{ENDLESS} SELECT count(*) FROM n", "takes too long"),
        (f"{ENDLESS} SELECT count(replace(hex(zeroblob(4000)), '0', '1')) FROM n", "takes too long"),
        (f"{ENDLESS} INSERT INTO t (word) SELECT hex(zeroblob(200)) FROM n", "full"),
        (f"{ENDLESS} SELECT count(*) FROM (SELECT * FROM n LIMIT 300000)", "takes too long"),
        (f"{ENDLESS} SELECT count({SLOW}) FROM (SELECT * FROM n LIMIT 40000)", "takes too long"),
        (f"SELECT zeroblob({MOST_BYTES + 1})", "too big"),
        ("SELECT 1" + "+1" * 4000, "Expression tree is too large"),
        (f"{ENDLESS}, w AS (SELECT zeroblob(9000) || x FROM n) SELECT * FROM w UNION SELECT 1", "memory"),
        ("SELECT " + "1," * MOST_BYTES + "1", "too large"),
    ],
)
def test_what_would_not_end_or_not_fit_is_stopped_and_changes_nothing(database, sql: str, fault: str) -> None:
    same, output = execute(database, sql)
    assert fault in output["error"]
    assert same is database


def test_a_huge_result_is_cut_off(database) -> None:
    output = execute(database, f"{ENDLESS} SELECT x FROM n").output
    assert (len(output["rows"]), output["cut_off"]) == (MOST_ROWS, True)
    wide = execute(database, f"{ENDLESS} SELECT hex(zeroblob(4000)) FROM n").output
    assert len(msgspec.json.encode(wide)) < 2 * MOST_SHOWN
    assert wide["cut_off"]


def test_a_row_of_many_long_values_or_names_is_cut_off_within_itself(database) -> None:
    columns = ", ".join(["x"] * 1900)
    wide = execute(database, f"SELECT {columns} FROM (SELECT hex(zeroblob(4000)) AS x)").output
    assert len(msgspec.json.encode(wide)) < 2 * MOST_SHOWN
    assert wide["cut_off"]
    stars = ", ".join(["*"] * 1900)
    named = execute(database, f"SELECT {stars} FROM (SELECT 1 AS {'n' * 3000})").output
    assert len(msgspec.json.encode(named)) < 3 * MOST_SHOWN
    assert execute(database, "SELECT zeroblob(9000)").output["rows"] == [[f"x'{'00' * 9000}'"]]


@pytest.mark.parametrize(
    ("trimmed", "kept"),
    [
        ("trim('xxabyx', 'xy')", "ab"),
        ("ltrim('xxabyx', 'xy')", "abyx"),
        ("rtrim('xxabyx', 'xy')", "xxab"),
        ("trim('ab', '')", "ab"),
        ("trim(NULL, 'x')", None),
        ("trim('x', NULL)", None),
        ("trim(1221, 1)", "22"),
        ("trim(x'414243', 'A')", "BC"),
        ("trim(' a ')", "a"),
    ],
)
def test_trimming_answers_as_that_of_sqlite(database, trimmed: str, kept: str | None) -> None:
    assert rows(database, f"SELECT {trimmed}") == [[kept]]
    with contextlib.closing(sqlite3.connect(":memory:")) as own:
        assert own.execute(f"SELECT {trimmed}").fetchall() == [(kept,)]


GOING_ON = {  # what was done before the cut, what is asked after it, and the answer
    "rowids are not used again": (
        ["INSERT INTO t (word) VALUES ('x')", "DELETE FROM t WHERE id = 3"],
        "INSERT INTO t (word) VALUES ('y') RETURNING id",
        [[4]],
    ),
    "what was inserted last is known": (
        ["INSERT INTO t (word) VALUES ('x'), ('y')"],
        "SELECT last_insert_rowid(), changes()",
        [[4, 2]],
    ),
    "an open transaction is seen": (
        ["BEGIN", "DELETE FROM t"],
        "SELECT count(*) FROM t",
        [[0]],
    ),
    "an index and a trigger are there": (
        [
            "CREATE UNIQUE INDEX i ON t (word)",
            "CREATE TRIGGER r AFTER DELETE ON t BEGIN INSERT INTO t (word) VALUES ('gone'); END",
            "DELETE FROM t WHERE id = 1",
        ],
        "SELECT word FROM t ORDER BY id",
        [["c"], ["gone"]],
    ),
}


@pytest.mark.parametrize("story", GOING_ON)
def test_a_database_that_goes_on_from_a_record_answers_as_it_would_have(database, story: str) -> None:
    before, asked, answer = GOING_ON[story]
    database = after(database, *before)
    gone_on = give_back(keep(database), Database)
    assert gone_on == database
    assert execute(gone_on, asked) == execute(database, asked)
    assert rows(gone_on, asked) == answer


def test_a_transaction_that_was_open_at_the_cut_can_still_be_undone_and_kept(database) -> None:
    opened = give_back(
        keep(after(database, "BEGIN", "DELETE FROM t WHERE id = 1", "SAVEPOINT s", "DELETE FROM t")), Database
    )
    within = after(opened, "ROLLBACK TO s")
    assert rows(within, "SELECT id FROM t") == [[2]]
    assert same_content(after(within, "ROLLBACK"), database)
    assert rows(after(within, "COMMIT"), "SELECT id FROM t") == [[2]]
    assert same_content(after(opened, "RELEASE s", "ROLLBACK"), database)


def test_transactions_nest_as_those_of_sqlite(database) -> None:
    opened = after(database, "BEGIN")
    assert "within a transaction" in execute(opened, "BEGIN").output["error"]
    undone, output = execute(
        after(opened, "DELETE FROM t WHERE id = 2"), "INSERT OR ROLLBACK INTO t VALUES (1, 'x')"
    )
    assert "UNIQUE" in output["error"]
    assert (undone.marks, same_content(undone, database)) == ((), True)
    failed, output = execute(database, "INSERT OR FAIL INTO t VALUES (9, 'x'), (1, 'y')")
    assert "UNIQUE" in output["error"]
    assert rows(failed, "SELECT id FROM t") == [[1], [2], [9]]
    deep = after(database, *["SAVEPOINT s"] * 8)
    assert "savepoints" in execute(deep, "SAVEPOINT s").output["error"]


@pytest.mark.parametrize("size", ["NULL", "'3'", "2.5", "-4", "x'32'", "'4 and more'", "'none'", "0"])
def test_a_random_blob_is_as_long_as_sqlite_makes_it(database, size: str) -> None:
    asked = f"SELECT length(randomblob({size}))"
    with contextlib.closing(sqlite3.connect(":memory:")) as real:
        assert rows(database, asked) == [list(real.execute(asked).fetchone())]


def test_random_numbers_go_on_where_they_were(database) -> None:
    asked = "SELECT random(), randomblob(9), random()"
    once = execute(database, asked)
    assert once.database is not database, "what was drawn is part of the state"
    again = give_back(keep(once.database), Database)
    assert rows(again, asked) == rows(once.database, asked) != once.output["rows"]


ROW = {
    "setup_sql": "CREATE TABLE t (a); INSERT INTO t VALUES (abs(random() % 1000))",
    "gold_sql": "UPDATE t SET a = a + 1; INSERT INTO t VALUES (5)",
    "answer_sql": "SELECT sum(a) FROM t",
}


def judged(state: Database, answer: object, **row: object):
    return SOURCE.verify(state, f"It is {answer}.", msgspec.json.encode(ROW | row))


def test_a_session_is_judged_by_what_its_tables_hold_and_by_the_number_it_reports() -> None:
    state = SOURCE.begin(msgspec.json.encode(ROW))
    for sql in ("INSERT INTO t VALUES (5)", "UPDATE t SET a = a + 1 WHERE rowid = 1", "SELEC"):
        state = called(state, sql).state
    [[value]] = rows(state, "SELECT sum(a) FROM t")
    verdict = judged(state, value)
    assert (verdict.reward, verdict.details["effects"]) == (1.0, 2)
    assert judged(state, value + 1).reward == 0.0
    assert judged(state, "done", answer_sql=None).reward == 1.0
    assert judged(called(state, "INSERT INTO t VALUES (0)").state, value).reward == 0.0
    assert judged(called(state, "BEGIN").state, value).reward == 0.0, "what is not kept is not done"
    assert judged(called(state, "CREATE TABLE u (a)").state, value).reward == 0.0


def test_a_session_whose_row_sets_nothing_up_begins_with_an_empty_database() -> None:
    state = SOURCE.begin(b"{}")
    assert rows(give_back(keep(state), Database), "SELECT * FROM sqlite_schema") == []
    state = called(state, "CREATE TABLE t (a)").state
    assert rows(state, "SELECT count(*) FROM t") == [[0]]
    state = called(called(state, "DROP TABLE t").state, "SAVEPOINT s").state
    assert rows(called(state, "ROLLBACK TO s").state, "SELECT 1") == [[1]]


def test_what_only_reads_is_no_effect() -> None:
    state = SOURCE.begin(msgspec.json.encode(ROW))
    assert called(state, "SELECT * FROM t").state is state
    assert called(state, "DELETE FROM t").state.effects == 1


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"setup_sql": "CREATE TABEL t (a)"}, "`setup_sql`.*TABEL"),
        ({"setup_sql": "BEGIN"}, "`setup_sql`: no transactions"),
        ({"setup_sql": "SELECT 1; COMMIT; SELECT 2"}, "`setup_sql`: no transactions"),
        ({"setup_sql": f"SELECT '{';' * MOST_BYTES}'"}, "`setup_sql`: a statement is longer than"),
        ({"setup_sql": "ATTACH 'x' AS y"}, "`setup_sql`: ATTACH"),
        ({"gold_sql": "DELETE FROM u"}, "`gold_sql`: no such table"),
        ({"answer_sql": "SELECT a, a FROM t"}, "`answer_sql`: gives no one number"),
    ],
)
def test_a_row_whose_sql_is_wrong_is_refused_by_field(row: dict, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        judged(SOURCE.begin(msgspec.json.encode(ROW | row)), 1, **row)


def test_a_table_of_any_name_or_bytes_is_compared() -> None:
    odd = execute_script(
        Database(1), 'CREATE TABLE "a""b; c" (x); INSERT INTO "a""b; c" VALUES (CAST(x\'ff\' AS TEXT))'
    )
    assert same_content(odd, odd)
    assert not same_content(odd, execute_script(odd, 'DELETE FROM "a""b; c"'))


def test_a_table_that_grows_as_it_is_read_is_like_no_other_and_fills_no_memory(database) -> None:
    grown = after(
        database,
        "CREATE TABLE g (a, b AS (hex(zeroblob(4500))), c AS (hex(zeroblob(4500))))",
        f"{ENDLESS} INSERT INTO g SELECT x FROM n LIMIT 10000",
    )
    tracemalloc.start()
    try:
        assert not same_content(grown, grown)
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST_READ
    finally:
        tracemalloc.stop()


def test_as_much_as_a_database_can_hold_is_still_compared(database) -> None:
    full = after(
        database,
        "CREATE TABLE f (a)",
        *[f"{ENDLESS} INSERT INTO f SELECT 1 FROM n LIMIT 25000"] * 4,
        "INSERT INTO f VALUES (zeroblob(9000))",
    )
    assert same_content(full, full)
    assert not same_content(full, after(full, "UPDATE f SET a = 2 WHERE rowid = 70000"))


def test_a_statement_can_insert_as_many_rows_as_it_has_room_for_but_views_make_no_more_of_one(
    database,
) -> None:
    sql = "INSERT INTO n VALUES (1)"
    sql += ",(1)" * ((MOST_BYTES - len(sql)) // 4)
    assert execute(after(database, "CREATE TABLE n (x)"), sql).output == {"changes": sql.count("(1)")}
    viewed = after(database, f"CREATE VIEW v AS SELECT {'&'.join(['id'] * 150)} AS x FROM t")
    assert "too much memory" in execute(viewed, f"SELECT {'&'.join(['x'] * 60)} FROM v").output["error"]


def test_no_two_sessions_begin_alike() -> None:
    begun = [SOURCE.begin(msgspec.json.encode(ROW)) for _ in range(20)]
    assert len({state.seed for state in begun}) == 20
    assert len({state.content for state in begun}) > 10
