"""Statements that a connection to SQLite runs for somebody who is not to be trusted with it."""

import sqlite3
import time
from typing import Final, final

import msgspec

from triocollect.protocol.values import Json, JsonObject
from triocollect.servers.resources import dice
from triocollect.servers.resources.savepoints import Move

PAGE_BYTES: Final = 512  # small, since a state is written down at every effect
MOST_PAGES: Final = 2048  # 1 MiB
MOST_BYTES: Final = 100_000  # of one text or blob, and of a statement
MOST_ROWS: Final = 200  # of one result that are shown
MOST_SHOWN: Final = 20_000  # characters of one result
MOST_STEPS: Final = 2_000_000  # of SQLite's virtual machine: some tenths of a second
MOST_S: Final = 2.0  # where single steps take long
_STEPS_AT_ONCE: Final = 1000
_WORD_BYTES: Final = 8

_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: MOST_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MOST_BYTES,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_READING_PRAGMAS: Final = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"}
)
_REFUSED: Final = {
    sqlite3.SQLITE_ATTACH: "ATTACH and VACUUM are",
    sqlite3.SQLITE_DETACH: "DETACH is",
    sqlite3.SQLITE_CREATE_VTABLE: "virtual tables are",
    sqlite3.SQLITE_CREATE_TEMP_TABLE: "temporary tables are",  # no file would hold them
    sqlite3.SQLITE_CREATE_TEMP_INDEX: "temporary indexes are",
    sqlite3.SQLITE_CREATE_TEMP_VIEW: "temporary views are",
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: "temporary triggers are",
}
_FUNCTIONS_REFUSED: Final = frozenset({"load_extension", "fts3_tokenizer"})
_TRANSACTIONS: Final[dict[tuple[int, str | None], Move]] = {
    (sqlite3.SQLITE_TRANSACTION, "BEGIN"): "BEGIN",
    (sqlite3.SQLITE_TRANSACTION, "COMMIT"): "COMMIT",
    (sqlite3.SQLITE_TRANSACTION, "ROLLBACK"): "ROLLBACK",
    (sqlite3.SQLITE_SAVEPOINT, "BEGIN"): "SAVEPOINT",
    (sqlite3.SQLITE_SAVEPOINT, "RELEASE"): "RELEASE",
    (sqlite3.SQLITE_SAVEPOINT, "ROLLBACK"): "ROLLBACK TO",
}


def connect(content: bytes) -> sqlite3.Connection:
    """A database in memory with this content; empty without any."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    if content:
        connection.deserialize(content)
    else:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute(f"PRAGMA max_page_count = {MOST_PAGES}")
    connection.text_factory = lambda text: text.decode(errors="replace")
    return connection


class Remembered(msgspec.Struct, frozen=True):
    """What a connection knows beside its database. `draws`: random numbers that were used."""

    draws: int = 0
    last_rowid: int = 0
    changes: int = 0


@final
class Statements:
    """Runs statements within limits, and knows of the last one what a connection would.

    BEGIN, SAVEPOINT and their like are not run: `transacting` says what the last one wanted. `refused`: why a
    statement was stopped, where that was not SQLite's decision.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        seed: int,
        remembered: Remembered,
        in_transaction: bool,
    ) -> None:
        self._connection: Final = connection
        self._seed, self._in_transaction = seed, in_transaction
        self._steps, self._until = 0, 0.0
        self._draws = remembered.draws
        self._last_rowid, self._changes = remembered.last_rowid, remembered.changes
        self.transacting: tuple[Move, str | None] | None = None
        self.refused: str | None = None
        for limit, most in _LIMITS.items():
            connection.setlimit(limit, most)
        connection.create_function("random", 0, self._random)
        connection.create_function("randomblob", 1, self._randomblob)
        connection.create_function("last_insert_rowid", 0, lambda: self._last_rowid)
        connection.create_function("changes", 0, lambda: self._changes)
        if in_transaction:  # so that one can be rolled back by a statement that fails
            connection.execute("BEGIN")
        connection.set_authorizer(self._authorise)
        connection.set_progress_handler(self._go_on, _STEPS_AT_ONCE)

    @property
    def remembered(self) -> Remembered:
        """What there is to remember by now."""
        return Remembered(self._draws, self._last_rowid, self._changes)

    def run(self, sql: str) -> JsonObject:
        """What one statement gives. Raises sqlite3.Error, sqlite3.Warning, ValueError."""
        self._steps, self._until = 0, time.thread_time() + MOST_S
        before = self._connection.total_changes
        cursor = self._connection.execute(sql)
        try:
            rows, cut_off = _shown(cursor)
        finally:
            cursor.close()
        changed = self._connection.total_changes - before
        if changed or cursor.rowcount >= 0:
            self._changes, self._last_rowid = changed, cursor.lastrowid or self._last_rowid
        if cursor.description is None:
            return {"changes": changed}
        columns: list[Json] = [column[0] for column in cursor.description]
        return {"columns": columns, "rows": rows, **({"cut_off": True} if cut_off else {})}

    def all(self, sql: str) -> list[tuple[object, ...]]:
        """Every row of a query. Raises sqlite3.Error."""
        self._steps, self._until = 0, time.thread_time() + MOST_S
        return self._connection.execute(sql).fetchall()

    def end(self) -> bytes | None:
        """The database's content after the statements; None where they rolled the transaction back."""
        self._connection.set_authorizer(None)
        if self._in_transaction and not self._connection.in_transaction:
            return None
        self._connection.commit()
        [[pages]] = self.all("PRAGMA page_count")
        return self._connection.serialize() if pages else b""  # without a page there is no file yet

    def _random(self) -> int:
        return int.from_bytes(self._drawn().to_bytes(_WORD_BYTES, "big"), "big", signed=True)

    def _randomblob(self, size: int) -> bytes:
        size = min(max(size, 1), MOST_BYTES)
        words = (self._drawn().to_bytes(_WORD_BYTES, "big") for _ in range(-(-size // _WORD_BYTES)))
        return b"".join(words)[:size]

    def _drawn(self) -> int:
        self._draws += 1
        return dice.word(self._seed, self._draws - 1)

    def _go_on(self) -> bool:
        """What SQLite asks between two lots of steps; a true answer ends the statement."""
        self._steps += _STEPS_AT_ONCE
        if self._steps < MOST_STEPS and time.thread_time() < self._until:
            return False
        self.refused = "the statement takes too long"
        return True

    def _authorise(self, action: int, one: str | None, two: str | None, *_: str | None) -> int:
        """What SQLite asks of everything that a statement will do."""
        if (move := _TRANSACTIONS.get((action, one))) is not None:
            self.transacting = move, two
        elif action == sqlite3.SQLITE_PRAGMA and (one or "").lower() not in _READING_PRAGMAS:
            self.refused = f"PRAGMA {one} is not available"
        elif action == sqlite3.SQLITE_FUNCTION and (two or "").lower() in _FUNCTIONS_REFUSED:
            self.refused = f"{two} is not available"
        elif action in _REFUSED:
            self.refused = f"{_REFUSED[action]} not available"
        else:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


def _shown(cursor: sqlite3.Cursor) -> tuple[list[Json], bool]:
    """Rows up to the limits, and whether there were more. What a statement changes, its first row changed."""
    rows, room = list[Json](), MOST_SHOWN
    for row in cursor:
        if len(rows) == MOST_ROWS or room <= 0:
            return rows, True
        values = [_json(value, room) for value in row]
        room -= sum(len(value) if isinstance(value, str) else _WORD_BYTES for value in values)
        rows.append(values)
    return rows, False


def _json(value: object, room: int) -> Json:
    match value:
        case bytes():
            return f"x'{value[: room // 2].hex()}'"
        case str():
            return value[:room]
        case int() | float() | None:
            return value
        case _:
            return str(value)
