"""What may become of a session: the rules of each environment, for whoever judges what it wrote down.

A counter's are told here again. Those of blackjack and of SQL are the environment's own, which are pure: what
is judged is whether a session went on from where it was, and not whether its cards are fair.
"""

import msgspec

from fuzz.states import State, read_state
from triocollect.servers.resources.blackjack import BlackjackSource
from triocollect.servers.resources.sql import SqlSource

BY_CHANCE = frozenset({"blackjack"})  # what there is to do depends on the seed
_RULES = {"blackjack": BlackjackSource(), "sql": SqlSource()}
_ALWAYS_CHANGE = frozenset(
    {"increment", "decrement", "deal", "hit", "stand"}
)  # as the scripted model uses them
_WORTH = {"win": 1.0, "push": 0.5, "loss": 0.0}


class _Amount(msgspec.Struct, frozen=True):
    amount: int = 0


class _Outcomes(msgspec.Struct, frozen=True):
    outcomes: tuple[str, ...]


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


def led_to(source: str, before: State, tool: str, arguments: bytes) -> int | str | None:
    """The value that an effect leads to; None where it leads nowhere."""
    if source == "counter":
        return before.value + change(source, tool, arguments)
    rules = _RULES[source]
    state = msgspec.json.decode(before.whole(), type=rules.state_type)
    after = rules.call(state, tool, bytes(arguments)).state
    return None if after is state else read_state(msgspec.json.encode(after)).value


def earned(last: State) -> float:
    """The reward of hands that were all played."""
    outcomes = msgspec.json.decode(last.whole(), type=_Outcomes).outcomes
    return sum(_WORTH[outcome] for outcome in outcomes) / len(outcomes)


def has_changed(tool: str, answer: bytes) -> bool:
    """Whether a tool that answered so has changed something, by its name or by what it says."""
    if tool in _ALWAYS_CHANGE:
        return True
    output = msgspec.json.decode(answer, type=_Result).output
    return bytes(output).startswith(b"{") and msgspec.json.decode(output, type=_Changes).changes is not None
