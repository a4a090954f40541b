"""What a move at blackjack leads to, told again: for whoever judges the account that a table wrote.

Each hand has a pack of its own, cards 0 ... 51, the rank is the remainder by 13 and an ace is 0. The nth card
that is drawn is the nth random number of the seed, as a place among the cards that lie on no side, in order.
"""

from typing import Final, Literal

import msgspec
from attrs import define, field

from fuzz.splitmix import below

BEST, DEALER_STANDS = 21, 17
WORTH: Final = {"win": 1.0, "push": 0.5, "loss": 0.0}


class Table(msgspec.Struct):
    """What the environment writes of a table."""

    seed: int
    effects: int
    draws: int
    player: list[int]
    dealer: list[int]
    outcomes: list[Literal["win", "push", "loss"]]
    playing: bool


@define
class _Hand:
    """The hand that is played, card by card."""

    seed: int
    draws: int
    sides: dict[str, list[int]] = field(factory=lambda: {"player": [], "dealer": []})

    def draw(self, side: str) -> None:
        used = {*self.sides["player"], *self.sides["dealer"]}
        pack = [card for card in range(52) if card not in used]
        self.sides[side].append(pack[below(len(pack), self.seed, self.draws)])
        self.draws += 1

    def points(self, side: str) -> int:
        ranks = [card % 13 for card in self.sides[side]]
        hard = sum(10 if rank >= 9 else rank + 1 for rank in ranks)
        return hard + 10 if 0 in ranks and hard + 10 <= BEST else hard


def moved(written: bytes, move: str) -> Table:
    """The table after a move that there was."""
    before = msgspec.json.decode(written, type=Table)
    hand = _Hand(before.seed, before.draws)
    if move == "deal":
        for side in ("player", "dealer") * 2:
            hand.draw(side)
        over = hand.points("player") == BEST
    else:
        hand.sides = {"player": [*before.player], "dealer": [*before.dealer]}
        if move == "hit":
            hand.draw("player")
            over = hand.points("player") > BEST
        else:
            while hand.points("dealer") < DEALER_STANDS:
                hand.draw("dealer")
            over = True
    ended = [_outcome(hand.points("player"), hand.points("dealer"))] if over else []
    return Table(
        seed=before.seed,
        effects=before.effects + 1,
        draws=hand.draws,
        player=hand.sides["player"],
        dealer=hand.sides["dealer"],
        outcomes=[*before.outcomes, *ended],
        playing=not over,
    )


def _outcome(mine: int, theirs: int) -> Literal["win", "push", "loss"]:
    if mine > BEST or mine < theirs <= BEST:
        return "loss"
    return "push" if mine == theirs else "win"


def leads_to(before: bytes, move: str, after: bytes) -> bool:
    """Whether the second table is what the move makes of the first."""
    return moved(before, move) == msgspec.json.decode(after, type=Table)


def earned(written: bytes) -> float:
    """The reward of hands that were all played."""
    outcomes = msgspec.json.decode(written, type=Table).outcomes
    return sum(WORTH[outcome] for outcome in outcomes) / len(outcomes)
