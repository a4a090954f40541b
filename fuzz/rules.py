"""What may become of a session: the rules of each environment, for whoever judges what it wrote down.

Nothing here asks the environment itself: the rules are told again, and SQL's are those of Python's sqlite3.
"""

import msgspec

from fuzz import cards, tables
from fuzz.states import State

BY_CHANCE = frozenset({"blackjack"})  # what there is to do depends on the seed
_ALWAYS_CHANGE = frozenset(
    {"increment", "decrement", "deal", "hit", "stand"}
)  # as the scripted model uses them


class _Amount(msgspec.Struct, frozen=True):
    amount: int = 0


class _Result(msgspec.Struct, frozen=True):
    output: msgspec.Raw = msgspec.Raw(b"null")


class _Changes(msgspec.Struct, frozen=True):
    changes: int | None = None


def change(source: str, tool: str, arguments: bytes) -> int | str:
    """What an effect does, in one value: by how much a counter moves, else the move itself."""
    if source == "counter":
        amount = msgspec.json.decode(arguments, type=_Amount).amount
        return {"increment": amount, "decrement": -amount}.get(tool, 0)
    return f"{tool} {msgspec.json.encode(msgspec.json.decode(arguments), order='sorted').decode()}"


def leads_to(source: str, before: State, tool: str, arguments: bytes, after: State) -> bool:
    """Whether an effect makes the one state of the other."""
    match source:
        case "counter":
            return after.value == before.value + change(source, tool, arguments)
        case "blackjack":
            return cards.leads_to(before.whole(), tool, after.whole())
        case "sql":
            return tables.leads_to(before.whole(), bytes(arguments), after.whole())
        case _:
            raise LookupError(f"nobody knows the rules of {source}")


def earned(last: State) -> float:
    """The reward of hands that were all played."""
    return cards.earned(last.whole())


def has_changed(tool: str, answer: bytes) -> bool:
    """Whether a tool that answered so has changed something, by its name or by what it says."""
    if tool in _ALWAYS_CHANGE:
        return True
    output = msgspec.json.decode(answer, type=_Result).output
    return bytes(output).startswith(b"{") and msgspec.json.decode(output, type=_Changes).changes is not None
