"""Stories by the dice: what hits whom, and when."""

import random
from typing import Final

import msgspec

from fuzz.live.story import ALWAYS_ONE, MIXES, SERVERS, Life, Of, Story, Strike, What

_MOMENTS: Final[dict[Of, int]] = {
    "start": 3, "effects": 5, "calls": 3, "lines": 3, "checkpoint": 3, "names": 3, "publish": 3, "held": 2,
    "restore": 2,
}  # fmt: skip
_SIGNALS: Final[dict[What, int]] = {"USR1": 4, "TERM": 5, "INT": 2, "HUP": 1, "KILL": 4, "STOP": 3}
_QUICK_S: Final = 1.0  # a checkpoint's time where a lease is to be waited for
_TO_ALL: Final = {True: {"TERM", "INT"}, False: {"TERM", "INT", "HUP", "USR1"}}  # others end `serve`
_OTHERS: Final = ("servers", "all")
_WORKERS: Final = (1, 2, 2, 3, 4)
_MOST_LOSSES: Final = 4  # a coordinator gives a worker up that is lost more often within a minute


def drawn(dice: random.Random) -> Story:
    """One story; a third of them have several workers behind each port."""
    mix = dice.choices(list(MIXES), [4, 2, 2, 1, 1])[0]
    crewed = dice.random() < 1 / 3
    alone = dice.random() < 1 / 4
    standing = alone and dice.random() < 1 / 2
    quick = dice.random() < 1 / 4
    always = dice.choice(_WORKERS)  # servers that stand have as many as they began with
    numbers = [(always if standing else dice.choice(_WORKERS)) if crewed else 1 for _ in range(4)]
    draw = _Dice(dice, mix, quick=quick, alone=alone)
    lives = tuple(draw.life(numbers[nth]) for nth in range(dice.randint(1, 3)))
    return Story(
        mix=mix,
        rows=dice.randint(2, 5),
        concurrency=dice.choice((1, 3, 8)),
        tokens_per_s=dice.choice((20.0, 40.0, 100.0)),
        timeout_s=_QUICK_S if quick else 20.0,
        alone=alone,
        standing=standing,
        lives=_kept_going(lives) if standing else lives,
        workers=numbers[-1],
    )


def _kept_going(lives: tuple[Life, ...]) -> tuple[Life, ...]:
    """Without the losses that would have a coordinator give up, which outlives a life."""
    left, kept = _MOST_LOSSES, []
    for life in lives:
        strikes = []
        for strike in life.strikes:
            is_loss = strike.what == "KILL" and (strike.whom == "workers" or " " in strike.whom)
            left -= is_loss
            if not is_loss or left >= 0:
                strikes.append(strike)
        kept.append(msgspec.structs.replace(life, strikes=tuple(strikes)))
    return tuple(kept)


class _Dice:
    """Draws for one story."""

    def __init__(self, dice: random.Random, mix: str, *, quick: bool, alone: bool) -> None:
        self._dice, self._mix, self._quick, self._alone = dice, mix, quick, alone

    def life(self, workers: int) -> Life:
        """One in which each server has so many workers."""
        dice = self._dice
        cold = not self._quick and not self._alone and dice.random() < 1 / 10
        strikes = [self._strike(workers) for _ in range(dice.choice((1, 2, 2, 3, 4)))]
        own = [one for one in strikes if one.is_own][: 0 if cold else 1]
        others = [one for one in strikes if not one.is_own]
        if any(one.of == "checkpoint" for one in strikes) or (own and own[0].of in {"publish", "held"}):
            others.insert(0, Strike("effects", dice.randint(1, 8), "USR1"))
        return Life((*own, *others), cold=cold, workers=workers)

    def _strike(self, workers: int) -> Strike:
        dice, alone = self._dice, self._alone
        of = dice.choices(list(_MOMENTS), list(_MOMENTS.values()))[0]
        what = dice.choices(list(_SIGNALS), list(_SIGNALS.values()))[0]
        loses = workers > 1 and dice.random() < 1 / 3
        holds_up = of in {"held", "restore"}
        if holds_up or loses:
            what = dice.choice(("KILL", "KILL", "STOP"))
        if loses and of in {"names", "publish"}:
            of = "checkpoint"
        own = of in {"names", "publish"}
        whom = "collector"
        if holds_up or loses or (what in {"KILL", "STOP"} and not (own and alone) and dice.random() < 1 / 2):
            whom = self._server(workers, own=own, held=holds_up)
        elif what in _TO_ALL[alone] and not own and dice.random() < 1 / 8:
            whom = "all"
        if own and whom != "collector":
            of = "publish"  # a server changes names in a commit only
        leases = self._leases() if what == "STOP" else 0.0
        return Strike(of, self._at(of), what, whom, leases)

    def _server(self, workers: int, *, own: bool, held: bool) -> str:
        """Which of them, or several; a coordinator counts for itself, a worker does not."""
        dice, others = self._dice, () if own else ("servers",) if held else _OTHERS
        whom = dice.choice((*SERVERS, *MIXES[self._mix], *others))
        if workers == 1 or own or whom in {ALWAYS_ONE, "all"} or dice.random() < 1 / 4:
            return whom
        if whom == "servers":
            return "workers"
        return f"{whom} {dice.choice((*range(1, workers + 1), '*'))}"

    def _at(self, of: Of) -> float:
        match of:
            case "start":
                return round(self._dice.uniform(0.0, 1.2), 2)
            case "checkpoint":
                return round(self._dice.uniform(0.0, 1.1), 2)
            case "names":
                return self._dice.randint(1, 30)
            case "restore":
                return self._dice.randint(1, 2)
            case "held":
                return self._dice.randint(1, 6)
            case _:
                return self._dice.randint(1, 10)

    def _leases(self) -> float:
        return self._dice.choice((0.1, 0.3, 1.15)) if self._quick else 0.01
