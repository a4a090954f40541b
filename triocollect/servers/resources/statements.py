"""Statements that a connection to SQLite runs for somebody who is not to be trusted with it."""

import contextlib
import hashlib
import re
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Final, final

import msgspec

from triocollect.protocol.values import Json, JsonObject
from triocollect.servers.resources import dice
from triocollect.servers.resources.savepoints import Move

PAGE_BYTES: Final = 512  # small, since a state is written down at every effect
MOST_PAGES: Final = 2048  # 1 MiB
MOST_BYTES: Final = 10_000  # of one text or blob, and of a statement: what bounds the time of a single step
MOST_READ: Final = 4 * PAGE_BYTES * MOST_PAGES  # bytes of all tables together: columns may be made in reading
MOST_MEMORY: Final = 32 * 2**20  # of all that SQLite holds at once
MOST_ROWS: Final = 200  # of one result that are shown
MOST_SHOWN: Final = 20_000  # characters of one result, its columns' names among them
MOST_STEPS: Final = 2_000_000  # of SQLite's virtual machine: some hundredths of a second, mostly
MOST_S: Final = 2.0  # of processor time, far beyond that: only for statements whose every step takes long
_STEPS_AT_ONCE: Final = 100
_WORD_BYTES: Final = 8
_WHOLE: Final = re.compile(r"\s*[+-]?\d+")
_MOST_DIGITS: Final = 9

_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: MOST_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MOST_BYTES,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 8_000,  # views make much of a short text; without a loop no clock ends it
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
_TRIMMING: Final = {"trim": str.strip, "ltrim": str.lstrip, "rtrim": str.rstrip}
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
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA hard_heap_limit = {MOST_MEMORY}")  # of the whole process; it never rises
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

    BEGIN, SAVEPOINT and their like do nothing: `transacting` says what the last one wanted, and it counts if
    `run` did not raise. `refused`: why a statement was stopped, where that was not SQLite's decision.
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
        for name, trim in _TRIMMING.items():
            connection.create_function(name, 2, partial(_trimmed, trim), deterministic=True)
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
        """What one statement gives. Raises sqlite3.Error, sqlite3.Warning, ValueError, MemoryError."""
        self._count_anew()
        before = self._connection.total_changes
        with contextlib.closing(self._connection.execute(sql)) as cursor:
            if self.transacting is not None and cursor.description is not None:
                raise ValueError("EXPLAIN of a transaction's statement is not available")
            result = _shown(cursor)
        changed = self._connection.total_changes - before
        if changed or cursor.rowcount >= 0:
            self._changes, self._last_rowid = changed, cursor.lastrowid or self._last_rowid
        return {"changes": changed} if result is None else result

    def tables(self) -> dict[str, list[bytes]]:
        """A digest of every row of every table, sorted. Raises sqlite3.Error, ValueError, MemoryError."""
        self._count_anew()
        found = self._connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        names = [str(name) for (name,) in found if not str(name).startswith("sqlite_")]
        room = MOST_READ
        tables: dict[str, list[bytes]] = {}
        for name in names:
            quoted = '"' + name.replace('"', '""') + '"'
            digests = list[bytes]()
            for row in self._connection.execute(f"SELECT * FROM {quoted}"):  # noqa: S608  # quoted
                room -= sum(len(value) for value in row if isinstance(value, str | bytes))
                if room < 0:
                    raise ValueError(f"the tables hold more than {MOST_READ} bytes")
                digests.append(hashlib.sha256(repr(row).encode()).digest())
            tables[name] = sorted(digests)
        return tables

    def end(self) -> bytes | None:
        """The database's content after the statements; None where they rolled the transaction back."""
        self._connection.set_authorizer(None)
        if self._in_transaction and not self._connection.in_transaction:
            return None
        self._connection.commit()
        self._count_anew()
        [[pages]] = self._connection.execute("PRAGMA page_count")
        return self._connection.serialize() if pages else b""  # without a page there is no file yet

    def _count_anew(self) -> None:
        self._steps, self._until = 0, time.thread_time() + MOST_S

    def _random(self) -> int:
        return int.from_bytes(self._drawn().to_bytes(_WORD_BYTES, "big"), "big", signed=True)

    def _randomblob(self, asked: float | str | bytes | None) -> bytes:
        size = min(max(_whole(asked), 1), MOST_BYTES)
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
            return sqlite3.SQLITE_IGNORE  # unlike a denial it has the rest of the text looked at
        if action == sqlite3.SQLITE_PRAGMA and (one or "").lower() not in _READING_PRAGMAS:
            self.refused = f"PRAGMA {one} is not available"
        elif action == sqlite3.SQLITE_FUNCTION and (two or "").lower() in _FUNCTIONS_REFUSED:
            self.refused = f"{two} is not available"
        elif action in _REFUSED:
            self.refused = f"{_REFUSED[action]} not available"
        else:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


def _whole(value: float | str | bytes | None) -> int:
    """As SQLite takes any value for a whole number: what a text begins with, a fraction cut off."""
    if isinstance(value, int | float):
        return int(min(max(value, -MOST_BYTES), MOST_BYTES))
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    found = _WHOLE.match(text)
    return 0 if found is None else int(found[0][:_MOST_DIGITS])


def _shown(cursor: sqlite3.Cursor) -> JsonObject | None:
    """A result up to the limits; None of a statement that has none.

    What a statement changes, its first row changed.
    """
    if cursor.description is None:
        return None
    room, rows = _Room(), list[Json]()
    columns: list[Json] = [room.shown(column[0]) for column in cursor.description]
    for row in cursor:
        if len(rows) == MOST_ROWS or room.left == 0:
            room.cut_off = True
            break
        rows.append([room.shown(value) for value in row])
    return {"columns": columns, "rows": rows, **({"cut_off": True} if room.cut_off else {})}


@final
class _Room:
    """How many characters of a result can still be shown, and whether any could not."""

    def __init__(self) -> None:
        self.left, self.cut_off = MOST_SHOWN, False

    def shown(self, value: object) -> Json:
        """A value, or the beginning of it."""
        match value:
            case int() | float() | None:
                self.left = max(self.left - _WORD_BYTES, 0)
                return value
            case bytes():
                whole, size = value.hex(), 2 * (self.left // 2)
            case _:
                whole, size = str(value), self.left
        self.cut_off |= len(whole) > size
        shown = whole[:size]
        self.left -= len(shown)
        return f"x'{shown}'" if isinstance(value, bytes) else shown


def _trimmed(trim: Callable[[str, str], str], value: object, characters: object) -> str | None:
    """SQLite's own takes as long as the product of both lengths, in a single step."""
    return None if value is None or characters is None else trim(_text(value), _text(characters))


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
