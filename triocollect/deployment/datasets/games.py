"""Rows that take several turns with tools, for the environments. Pure."""

import random
from collections.abc import Iterator
from typing import Final

from triocollect.deployment.datasets.drawing import WORDS, between, pick, row, some, tool
from triocollect.protocol.values import JsonObject

STEPS: Final = (2, 7)  # changes of one counter plan, fewest and most; `get_value` comes on top

_AMOUNT: Final[JsonObject] = {
    "amount": {"type": "integer", "description": "A whole number from 1 to 1000000."}
}
_COUNTER: Final[JsonObject] = {
    "instructions": "You have a counter. Change it one step at a time with your tools, then say its value.",
    "tools": [
        tool("increment", "Add to the counter; answers with its value.", _AMOUNT),
        tool("decrement", "Subtract from the counter; answers with its value.", _AMOUNT),
        tool("get_value", "The value of the counter."),
    ],
}
_BLACKJACK: Final[JsonObject] = {
    "instructions": "You play blackjack against a dealer who draws to 17. Each hand has a fresh pack.",
    "tools": [
        tool("deal", "Begin a hand; answers with the cards on the table."),
        tool("hit", "Take a card; answers with the cards on the table."),
        tool("stand", "Take no more cards; answers with the cards on the table and the hand's outcome."),
    ],
}
_SQL: Final[JsonObject] = {
    "instructions": "You have a SQLite database. Its table is stock(item, amount). Use one statement a call.",
    "tools": [
        tool(
            "query",
            "Run one SQL statement; answers with rows, with the number of changes, or with an error.",
            {"sql": {"type": "string", "description": "One statement of SQLite's SQL."}},
        )
    ],
}


def counter(dice: random.Random) -> Iterator[JsonObject]:
    """Plans of three to eight tool calls for the counter."""
    while True:
        words, verb_before, total = list[str](), "", 0
        for _ in range(between(dice, *STEPS)):
            verb, amount = pick(dice, ("add", "subtract")), between(dice, 1, 50)
            words.append(str(amount) if verb == verb_before else f"{verb} {amount}")
            total += amount if verb == "add" else -amount
            verb_before = verb
        plan = ", then ".join([*words, "report the value"])
        yield row("counter", f"{plan[0].upper()}{plan[1:]}.", {"expected_change": total}, _COUNTER)


def blackjack(dice: random.Random) -> Iterator[JsonObject]:
    """Two to five hands at a table of one's own."""
    while True:
        hands, below, name = between(dice, 2, 5), between(dice, 13, 18), pick(dice, WORDS)
        task = (
            f"At the {name} table: Play {hands} hands of blackjack. Hit below {below}, else stand. "
            "Then say how many you won."
        )
        yield row("blackjack", task, {"hands": hands}, _BLACKJACK)


def sql(dice: random.Random) -> Iterator[JsonObject]:
    """Changes of a stock of five items, some of them in a transaction that is kept or undone."""
    while True:
        items = some(dice, WORDS, 8)
        stock, new = items[:5], items[5:]
        setup = _setup(stock)
        steps = [_change(dice, stock, new) for _ in range(between(dice, 2, 4))]
        within = [_change(dice, stock, new) for _ in range(between(dice, 1, 2))]
        words, gold = [said for said, _ in steps], [statement for _, statement in steps]
        if ending := pick(dice, ("", "keep", "undo")):
            words += ["begin a transaction", *(said for said, _ in within), f"{ending} the transaction"]
            gold += [statement for _, statement in within] if ending == "keep" else []
        plan = ", ".join([*words, "then say how many there are in all"])
        expected: JsonObject = {
            "setup_sql": setup,
            "gold_sql": "; ".join(gold),
            "answer_sql": "SELECT sum(amount) FROM stock",
        }
        yield row("sql", f"{plan[0].upper()}{plan[1:]}.", expected, _SQL)


def _setup(stock: list[str]) -> str:
    amounts = ", ".join(f"('{item}', 50 + abs(random() % 50))" for item in stock)
    table = "CREATE TABLE stock (item TEXT NOT NULL UNIQUE, amount INTEGER NOT NULL)"
    return f"{table}; INSERT INTO stock VALUES {amounts}"  # noqa: S608  # our own words


def _change(dice: random.Random, stock: list[str], new: list[str]) -> tuple[str, str]:
    """In words, and in SQL; what is entered is in stock from then on, and struck out for good."""
    kind, amount = pick(dice, ("add", "add", "take", "take", "enter", "strike")), between(dice, 1, 40)
    if kind == "enter" and new:
        item = new.pop()
        stock.append(item)
        return f"enter {amount} of {item}", f"INSERT INTO stock VALUES ('{item}', {amount})"  # noqa: S608
    item = pick(dice, stock)
    if kind == "strike" and len(stock) > 1:
        stock.remove(item)
        return f"strike out {item}", f"DELETE FROM stock WHERE item = '{item}'"  # noqa: S608
    verb, sign, to = ("take", "-", "from") if kind == "take" else ("add", "+", "to")
    return (
        f"{verb} {amount} {to} {item}",
        f"UPDATE stock SET amount = amount {sign} {amount} WHERE item = '{item}'",  # noqa: S608
    )
