"""Environment: hands of blackjack against a dealer who draws to 17. Pure but for the seed.

Tools: `deal()`, `hit()`, `stand()`; each answers with what lies on the table. Each hand is dealt from a fresh
pack of 52, by random numbers whose seed the operating system draws when the session begins. How many were
drawn is part of the state: a session that goes on somewhere else draws the cards that it would have drawn.
"""

from typing import Annotated, Final, Literal, TypeAlias, final

import msgspec

from triocollect.protocol.messages import Mode
from triocollect.protocol.values import Json
from triocollect.servers.resources import dice
from triocollect.servers.resources.source import Step, Verdict

Outcome: TypeAlias = Literal["win", "push", "loss"]

_PACK: Final = tuple(range(52))
_RANKS: Final = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
_BEST: Final = 21
_DEALER_STANDS: Final = 17
_MOST_HANDS: Final = 1000  # a session that never ends is no use to anybody
_WORTH: Final = {"win": 1.0, "push": 0.5, "loss": 0.0}


class Blackjack(msgspec.Struct, frozen=True):
    """The state of a session, whole. Cards are 0 ... 51, the rank is the remainder by 13, aces first.

    `draws`: how many random numbers were used. `outcomes`: of the hands that are over.
    """

    seed: int
    effects: int = 0
    draws: int = 0
    player: tuple[int, ...] = ()
    dealer: tuple[int, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    playing: bool = False


class _Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of every tool."""


class _Expected(msgspec.Struct, frozen=True):
    """Fields of the row: how many hands there are to play."""

    hands: Annotated[int, msgspec.Meta(ge=1, le=_MOST_HANDS)] = 1


_decode_nothing: Final = msgspec.json.Decoder(_Nothing).decode
_decode_expected: Final = msgspec.json.Decoder(_Expected).decode


def total(cards: tuple[int, ...]) -> int:
    """What a hand counts: an ace 11 where that does not go beyond 21, else 1."""
    points = sum(min(card % 13 + 1, 10) for card in cards)
    has_ace = any(card % 13 == 0 for card in cards)
    return points + 10 if has_ace and points + 10 <= _BEST else points


def move(table: Blackjack, tool: str) -> Blackjack | str:
    """The table after one move; or why there is no such move now."""
    if tool == "deal":
        if table.playing:
            return "a hand is being played: hit or stand"
        if len(table.outcomes) == _MOST_HANDS:
            return "no more hands are dealt"
        return _dealt(table)
    if not table.playing:
        return "no hand is being played: deal"
    if tool == "hit":
        return _judged(_drawn(table, "player"), is_last=False)
    while total(table.dealer) < _DEALER_STANDS:
        table = _drawn(table, "dealer")
    return _judged(table, is_last=True)


def verify(table: Blackjack, hands: int) -> Verdict:
    """Reward: what a hand brought on average: 1.0 for a win, 0.5 for a push, nothing for one not played."""
    counted = table.outcomes[:hands]
    return Verdict(
        sum(_WORTH[outcome] for outcome in counted) / hands,
        {
            "outcomes": [*counted],
            "hands_played": len(table.outcomes),
            "draws": table.draws,
            "effects": table.effects,
        },
    )


@final
class BlackjackSource:
    """The game as a source."""

    mode: Mode = "exported"
    state_type = Blackjack
    tools: frozenset[str] = frozenset({"deal", "hit", "stand"})

    def begin(self, row: bytes) -> Blackjack:  # noqa: ARG002  # every table is empty at first
        """An empty table with a seed from the operating system."""
        return Blackjack(seed=dice.new_seed())

    def call(self, state: Blackjack, tool: str, arguments: bytes) -> Step[Blackjack]:
        """Raises msgspec.DecodeError for arguments that no tool takes."""
        _decode_nothing(arguments)
        after = move(state, tool)
        if isinstance(after, str):
            return Step(state, {**_shown(state), "error": after})
        after = msgspec.structs.replace(after, effects=state.effects + 1)
        return Step(after, _shown(after))

    def verify(self, state: Blackjack, answer: str, row: bytes) -> Verdict:  # noqa: ARG002  # cards count, not words
        """Judge the hands that were played."""
        return verify(state, _decode_expected(row).hands)


def _dealt(table: Blackjack) -> Blackjack:
    table = msgspec.structs.replace(table, player=(), dealer=(), playing=True)
    for whose in ("player", "dealer", "player", "dealer"):
        table = _drawn(table, whose)
    return _judged(table, is_last=total(table.player) == _BEST)


def _drawn(table: Blackjack, whose: str) -> Blackjack:
    left = [card for card in _PACK if card not in table.player and card not in table.dealer]
    card = left[dice.below(len(left), table.seed, table.draws)]
    draws = table.draws + 1
    if whose == "player":
        return msgspec.structs.replace(table, player=(*table.player, card), draws=draws)
    return msgspec.structs.replace(table, dealer=(*table.dealer, card), draws=draws)


def _judged(table: Blackjack, *, is_last: bool) -> Blackjack:
    """The table with the hand's outcome, if it is over."""
    mine, theirs = total(table.player), total(table.dealer)
    outcome: Outcome
    if mine > _BEST:
        outcome = "loss"
    elif not is_last:
        return table
    elif mine == theirs:
        outcome = "push"
    else:
        outcome = "win" if theirs > _BEST or mine > theirs else "loss"
    return msgspec.structs.replace(table, outcomes=(*table.outcomes, outcome), playing=False)


def _shown(table: Blackjack) -> dict[str, Json]:
    """What a player sees: the dealer's second card stays covered while the hand is played."""
    dealer = table.dealer[:1] if table.playing else table.dealer
    return {
        "hand": len(table.outcomes) + table.playing,
        "player": [_RANKS[card % 13] for card in table.player],
        "total": total(table.player),
        "dealer": [_RANKS[card % 13] for card in dealer],
        "outcome": None if table.playing or not table.outcomes else table.outcomes[-1],
    }
