"""Environment: a SQLite database of one's own. Pure but for the seed, and for SQL's own clock.

Tool: `query(sql)`, one statement a call; it answers with rows, or with what is wrong, which is an answer like
another. `random()` draws from a seed that the operating system draws when the session begins: a row's setup
can use it, so that no two sessions begin alike, and it draws the same again when a session is judged.
"""

from typing import Final, final

import msgspec

from triocollect.protocol.messages import Mode
from triocollect.servers.resources import dice, numeric
from triocollect.servers.resources.database import Database, execute, execute_script, same_content
from triocollect.servers.resources.source import Step, Verdict


class _Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `query`."""

    sql: str


class _Setup(msgspec.Struct, frozen=True):
    """Fields of the row when a session begins: statements that make its database."""

    setup_sql: str = ""


class _Expected(_Setup, frozen=True):
    """Fields of the row to judge by.

    `gold_sql`: statements that do what was wanted. `answer_sql`: a query whose one number is to be reported.
    """

    gold_sql: str = ""
    answer_sql: str | None = None


_decode_query: Final = msgspec.json.Decoder(_Query).decode
_decode_setup: Final = msgspec.json.Decoder(_Setup).decode
_decode_expected: Final = msgspec.json.Decoder(_Expected).decode


@final
class SqlSource:
    """The database as a source."""

    mode: Mode = "exported"
    state_type = Database
    tools: frozenset[str] = frozenset({"query"})

    def begin(self, row: bytes) -> Database:
        """Raises msgspec.ValidationError where the row's setup is wrong."""
        return _begun(dice.new_seed(), _decode_setup(row))

    def call(self, state: Database, tool: str, arguments: bytes) -> Step[Database]:  # noqa: ARG002  # there is one
        """Raises msgspec.DecodeError for arguments that are none."""
        after, output = execute(state, _decode_query(arguments).sql)
        if after is not state:
            after = msgspec.structs.replace(after, effects=state.effects + 1)
        return Step(after, output)

    def verify(self, state: Database, answer: str, row: bytes) -> Verdict:
        """Judge what the tables hold, and the reported number.

        Reward 1.0 where every table holds what the row's own statements make of the same beginning, and the
        answer ends on the number that the row's query gives there; else 0.0. Raises msgspec.ValidationError
        where the row's statements are wrong.
        """
        expected = _decode_expected(row)
        gold = _scripted(_begun(state.seed, expected), "gold_sql", expected.gold_sql)
        same = not state.marks and same_content(state, gold)
        reported = numeric.last_number(answer)
        wanted = None if expected.answer_sql is None else _number(gold, expected.answer_sql)
        return Verdict(
            float(same and (wanted is None or numeric.last_number(wanted) == reported)),
            {
                "same_content": same,
                "expected_value": wanted,
                "reported_value": None if reported is None else str(reported),
                "effects": state.effects,
            },
        )


def _begun(seed: int, row: _Setup) -> Database:
    return _scripted(Database(seed), "setup_sql", row.setup_sql)


def _scripted(database: Database, field: str, sql: str) -> Database:
    try:
        return execute_script(database, sql)
    except ValueError as fault:
        raise msgspec.ValidationError(f"`{field}`: {fault}") from None


def _number(database: Database, sql: str) -> str:
    match execute(database, sql).output.get("rows"):
        case [[int() | float() as number]]:
            return str(number)
        case _:
            raise msgspec.ValidationError(f"`answer_sql`: gives no one number: {sql!r}")
