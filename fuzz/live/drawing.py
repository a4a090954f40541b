"""Stories by the dice: what hits whom, and when."""

import random
from typing import Final

from fuzz.live.story import MIXES, SERVERS, Life, Of, Story, Strike, What

_MOMENTS: Final[dict[Of, int]] = {
    "start": 3, "effects": 5, "calls": 3, "lines": 3, "checkpoint": 3, "names": 3, "publish": 3,
}  # fmt: skip
_SIGNALS: Final[dict[What, int]] = {"USR1": 4, "TERM": 5, "INT": 2, "HUP": 1, "KILL": 4, "STOP": 3}
_QUICK_S: Final = 1.0  # a checkpoint's time where a lease is to be waited for
_TO_ALL: Final = {True: {"TERM", "INT"}, False: {"TERM", "INT", "HUP", "USR1"}}  # others end `serve`
_OTHERS: Final = ("servers", "all")


def drawn(dice: random.Random) -> Story:
    """One story."""
    mix = dice.choices(list(MIXES), [4, 2, 2, 1, 1])[0]
    alone = dice.random() < 1 / 4
    quick = dice.random() < 1 / 4
    return Story(
        mix=mix,
        rows=dice.randint(2, 5),
        concurrency=dice.choice((1, 3, 8)),
        tokens_per_s=dice.choice((20.0, 40.0, 100.0)),
        timeout_s=_QUICK_S if quick else 20.0,
        alone=alone,
        standing=alone and dice.random() < 1 / 2,
        lives=tuple(_life(dice, mix, quick=quick, alone=alone) for _ in range(dice.randint(1, 3))),
    )


def _life(dice: random.Random, mix: str, *, quick: bool, alone: bool) -> Life:
    cold = not quick and not alone and dice.random() < 1 / 10
    strikes = [_strike(dice, mix, quick=quick, alone=alone) for _ in range(dice.choice((1, 2, 2, 3, 4)))]
    own = [one for one in strikes if one.is_own][: 0 if cold else 1]
    others = [one for one in strikes if not one.is_own]
    if any(one.of == "checkpoint" for one in strikes) or (own and own[0].of == "publish"):
        others.insert(0, Strike("effects", dice.randint(1, 8), "USR1"))
    return Life((*own, *others), cold=cold)


def _strike(dice: random.Random, mix: str, *, quick: bool, alone: bool) -> Strike:
    of = dice.choices(list(_MOMENTS), list(_MOMENTS.values()))[0]
    what = dice.choices(list(_SIGNALS), list(_SIGNALS.values()))[0]
    own = of in {"names", "publish"}
    whom = "collector"
    if what in {"KILL", "STOP"} and not (own and alone) and dice.random() < 1 / 2:
        whom = dice.choice((*SERVERS, *MIXES[mix], *(() if own else _OTHERS)))
    elif what in _TO_ALL[alone] and not own and dice.random() < 1 / 8:
        whom = "all"
    if own and whom != "collector":
        of = "publish"  # a server changes names in a commit only
    at = _at(dice, of)
    return Strike(of, at, what, whom, _leases(dice, quick=quick) if what == "STOP" else 0.0)


def _at(dice: random.Random, of: Of) -> float:
    match of:
        case "start":
            return round(dice.uniform(0.0, 1.2), 2)
        case "checkpoint":
            return round(dice.uniform(0.0, 1.1), 2)
        case "names":
            return dice.randint(1, 30)
        case "publish":
            return dice.randint(1, 10)
        case "effects" | "calls" | "lines":
            return dice.randint(1, 10)


def _leases(dice: random.Random, *, quick: bool) -> float:
    return dice.choice((0.1, 0.3, 1.15)) if quick else 0.01
