"""Stories that dice draw: short ones, in which a lot happens. The same dice draw the same story."""

import random
from typing import Final

import msgspec

from fuzz.simulation.story import (
    DAMAGED,
    SERVERS,
    Death,
    Door,
    Fall,
    Fault,
    How,
    Life,
    Moment,
    Of,
    Signal,
    Story,
    Trouble,
)

LEAST: Final = 3  # signals and faults that happen in a story that counts
_ANY_WAY: Final[tuple[How, ...]] = (
    "never arrives",
    "reply lost",
    "unnoticed",
    "late",
    "late reply",
    "hangs",
    "gateway",
    "gateway after",
)
_WAYS: Final[dict[Door, tuple[How, ...]]] = {
    "run": (*_ANY_WAY, "fails", "unwritten"),
    "control": (*_ANY_WAY, "twice", "nonsense", "another's"),
    "peer": _ANY_WAY,
}
_PEERS: Final = 16  # calls that a rollout of one change takes
_REACH: Final = {"controls": (14, 26), "syncs": (6, 24), "files": (25, 65)}  # of a life's start, and after it
_AT_THE_START: Final = 0.15


def drawn(dice: random.Random) -> Story:
    """One. Most lives have one trouble at most: what everything happens to shows little."""
    story = Story(
        rows=dice.choices((1, 2, 3), (14, 5, 1))[0],
        concurrency=dice.choice((256, 256, 2, 1)),
        tokens_per_s=dice.choices((None, 10.0), (5, 1))[0],
        latency_ms=dice.choices((0, 20, 500), (6, 1, 1))[0],
        control_ms=dice.choices((0, 5, 100), (6, 1, 1))[0],
        mixed=dice.random() < 0.15,
        standing=dice.random() < 0.3,
        changes=dice.choices((1, 2), (7, 1))[0],
        dice=dice.randrange(1 << 16),
    )
    lives = [_life(dice, story, nth) for nth in range(dice.choices((1, 2, 3), (14, 5, 1))[0])]
    least = dice.randint(LEAST + 4, LEAST + 6)  # some come too late to happen
    while sum(life.planned for life in lives) < least:
        nth = dice.randrange(len(lives))
        lives[nth] = _with_more(dice, story, lives[nth])
    return msgspec.structs.replace(story, lives=tuple(lives))


def _life(dice: random.Random, story: Story, nth: int) -> Life:
    end = dice.choice(("TERM", "TERM", "INT", "death", "death", "death", "by itself"))
    signals = [
        Signal(_moment(dice, story), dice.choice(("USR1", "USR1", "ASK")))
        for _ in range(dice.choice((0, 1, 1, 2)))
    ]
    if end in {"TERM", "INT"}:
        signals += [Signal(_late(dice, story), end) for _ in range(dice.choice((1, 1, 1, 2)))]
    later = nth > 0
    life = Life(
        signals=tuple(signals),
        death=_death(dice, story) if end == "death" else None,
        leap=_moment(dice, story) if dice.random() < 0.05 else None,
        slow_ms=dice.choices((0, 300, 5000), (16, 2, 1))[0],
        every_s=dice.choices((None, 1.0), (9, 1))[0],
        harm=dice.choice(DAMAGED) if later and dice.random() < 0.2 else None,
        concurrency=dice.choice((None, None, 1, 2)),
        fresh=later and dice.random() < 0.15,
        limit=1 if dice.random() < 0.1 else None,
    )
    return _with_more(dice, story, life) if dice.random() < 0.6 else life


def _with_more(dice: random.Random, story: Story, life: Life) -> Life:
    """The same with one trouble more."""
    change = msgspec.structs.replace
    match dice.choices(("fault", "fall", "disk", "signal"), (5, 2, 1, 6))[0]:
        case "fault":
            return change(life, faults=(*life.faults, _fault(dice, story)))
        case "fall":
            return change(life, falls=(*life.falls, Fall(_moment(dice, story), dice.choice(SERVERS))))
        case "disk":
            trouble = Trouble(
                _nth(dice, "files", story), dice.choice((1, 1, 1, 3, 1000)), dice.choice(("EIO", "ENOSPC"))
            )
            return change(life, disk=(*life.disk, trouble))
        case _:
            return change(life, signals=(*life.signals, Signal(_moment(dice, story), "USR1")))


def _fault(dice: random.Random, story: Story) -> Fault:
    door = dice.choice(("run", "control", "peer", "peer"))
    if door == "run":
        nth = dice.randint(1, story.rows)
    else:
        nth = _nth(dice, {"control": "controls", "peer": "answers"}[door], story)
    return Fault(door, nth, dice.choice(_WAYS[door]))


def _death(dice: random.Random, story: Story) -> Death:
    who = ("collector", "collector", "everybody", "machine") if story.standing else ("everybody", "machine")
    return Death(_late(dice, story), dice.choice(who))


def _moment(dice: random.Random, story: Story) -> Moment:
    lasts = story.latency_ms * _PEERS if story.tokens_per_s is None else 3000
    of: Of = dice.choice(("answers", "answers", "controls", "syncs", "files", "ms" if lasts else "answers"))
    if of == "ms":
        return Moment(dice.randint(0, lasts))
    return Moment(_nth(dice, of, story), of)


def _late(dice: random.Random, story: Story) -> Moment:
    """Of what ends a life: before it something is to happen."""
    first = _moment(dice, story)
    others = [_moment(dice, story) for _ in range(4)]
    return max((first, *(one for one in others if one.of == first.of)), key=_at)


def _at(moment: Moment) -> int:
    return moment.at


def _nth(dice: random.Random, what: str, story: Story) -> int:
    """One of those that a life has: rarely of its start, which would end it, and rather an early one."""
    start, reach = _REACH.get(what, (0, _PEERS * story.rows))
    if start and dice.random() < _AT_THE_START:
        return dice.randint(1, start)
    return start + dice.randint(1, dice.randint(1, reach))
