"""What the scripted model does with the tools of a game or a database. Pure."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from triocollect.protocol.values import NOT_JSON
from triocollect.servers.inference.moves import AT_A_LOSS, Answer, Move, ToolCall

BLACKJACK_TOOLS: Final = frozenset({"deal", "hit", "stand"})
QUERY: Final = "query"
BOLD: Final = 4  # by so much a wrong player goes too far

_GAME: Final = re.compile(r"Play (\d{1,2}) hands of blackjack\. Hit below (\d{1,2})\b")
_QUESTION: Final = "then say how many there are in all"
_STEP: Final = re.compile(
    r"add (?P<add>\d{1,6}) to (?P<more>\w+)|take (?P<take>\d{1,6}) from (?P<less>\w+)"
    r"|enter (?P<count>\d{1,6}) of (?P<new>\w+)|strike out (?P<gone>\w+)"
    r"|(?P<begin>begin a transaction)|(?P<undo>undo the transaction)|(?P<keep>keep the transaction)",
    re.IGNORECASE,
)
_COUNT: Final = "SELECT sum(amount) FROM stock"
_MISSPELT: Final = "SELECT sum(amount) FROM stok"
_ONE_NUMBER: Final = re.compile(r'"rows":\[\[(-?\d{1,300})\]\]')


class _Hand(msgspec.Struct, frozen=True):
    total: int
    outcome: str | None


class _HandShown(msgspec.Struct, frozen=True):
    output: _Hand


class _Query(msgspec.Struct, frozen=True):
    sql: str


_decode_shown: Final = msgspec.json.Decoder(_HandShown).decode


def play_blackjack(task: str, results: Sequence[str], *, right: bool) -> Move | None:
    """The next move of so many hands, by the total alone; None where the task is another."""
    if (game := _GAME.search(task)) is None:
        return None
    try:
        shown = [_decode_shown(result).output for result in results]
    except NOT_JSON:
        return AT_A_LOSS
    outcomes = [hand.outcome for hand in shown if hand.outcome is not None]
    if shown and shown[-1].outcome is None:
        below = int(game[2]) + (0 if right else BOLD)
        return ToolCall("hit" if shown[-1].total < below else "stand", "{}")
    if len(outcomes) < int(game[1]):
        return ToolCall("deal", "{}")
    return Answer(f"I won {outcomes.count('win')} of {len(outcomes)} hands.")


def query_database(task: str, results: Sequence[str], dice: int, *, right: bool) -> Move | None:
    """The next statement of a plan, or the number that it led to; None where the task is no such plan.

    Some begin with a statement that is wrong, and go on when they are told.
    """
    if _QUESTION not in task:
        return None
    statements = [_MISSPELT] if dice // 10 % 4 == 0 else []
    statements += [*map(_statement, _STEP.finditer(task)), _COUNT]
    if len(results) < len(statements):
        query = _Query(statements[len(results)])
        return ToolCall(QUERY, msgspec.json.encode(query).decode())
    if (number := _ONE_NUMBER.search(results[-1])) is None:
        return AT_A_LOSS
    return Answer(f"There are {int(number[1]) + (not right)} in all.")


def _statement(step: re.Match[str]) -> str:
    if step["more"]:
        return f"UPDATE stock SET amount = amount + {step['add']} WHERE item = '{step['more']}'"  # noqa: S608
    if step["less"]:
        return f"UPDATE stock SET amount = amount - {step['take']} WHERE item = '{step['less']}'"  # noqa: S608
    if step["new"]:
        return f"INSERT INTO stock VALUES ('{step['new']}', {step['count']})"  # noqa: S608
    if step["gone"]:
        return f"DELETE FROM stock WHERE item = '{step['gone']}'"  # noqa: S608
    return "BEGIN" if step["begin"] else "ROLLBACK" if step["undo"] else "COMMIT"
