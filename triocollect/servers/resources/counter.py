"""Environment: a counter that starts where the operating system's dice say. Pure but for the dice.

No two sessions begin alike, so a rollout that was continued from a state can be told from one that was played
again. Tools: `increment(amount)`, `decrement(amount)`, `get_value()`; each answers with the value.
"""

from typing import Annotated, Final, final

import msgspec

from triocollect.protocol.messages import Mode
from triocollect.servers.resources import dice, numeric
from triocollect.servers.resources.source import Step, Verdict

_STARTS: Final = 1000  # a counter starts at 0 ... 999


class Counter(msgspec.Struct, frozen=True):
    """The state of a session, whole: `effects` counts the changes since the start."""

    seed: int
    value: int
    effects: int = 0


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `increment` and `decrement`."""

    amount: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class _Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `get_value`."""


class _Expected(msgspec.Struct, frozen=True):
    """Fields of the row. Without `expected_change` only the reported value is judged."""

    expected_change: int | None = None


_decode_change: Final = msgspec.json.Decoder(Change).decode
_decode_nothing: Final = msgspec.json.Decoder(_Nothing).decode
_decode_expected: Final = msgspec.json.Decoder(_Expected).decode


def start(seed: int) -> Counter:
    """The counter that a seed stands for."""
    return Counter(seed=seed, value=seed % _STARTS)


def change(counter: Counter, by: int) -> Counter:
    """The counter after one effect."""
    return Counter(counter.seed, counter.value + by, counter.effects + 1)


def verify(counter: Counter, answer: str, expected_change: int | None) -> Verdict:
    """Reward 1.0 if the reported number is the value, and the value moved as the row wanted; else 0.0."""
    start_value = start(counter.seed).value
    reported = numeric.last_number(answer)
    moved = expected_change is None or counter.value - start_value == expected_change
    return Verdict(
        float(moved and reported == counter.value),
        {
            "start_value": start_value,
            "final_value": counter.value,
            "reported_value": None if reported is None else str(reported),
            "effects": counter.effects,
        },
    )


@final
class CounterSource:
    """The counter as a source."""

    mode: Mode = "exported"
    state_type = Counter
    tools: frozenset[str] = frozenset({"increment", "decrement", "get_value"})

    def begin(self, row: bytes) -> Counter:  # noqa: ARG002  # every plan has a counter like another
        """Draw a seed from the operating system."""
        return start(dice.new_seed())

    def call(self, state: Counter, tool: str, arguments: bytes) -> Step[Counter]:
        """Raises msgspec.DecodeError for arguments that the tool does not take."""
        if tool == "get_value":
            _decode_nothing(arguments)
            return Step(state, state.value)
        amount = _decode_change(arguments).amount
        after = change(state, amount if tool == "increment" else -amount)
        return Step(after, after.value)

    def verify(self, state: Counter, answer: str, row: bytes) -> Verdict:
        """Judge the reported value against the state."""
        return verify(state, answer, _decode_expected(row).expected_change)
