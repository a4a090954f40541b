"""Stories that dice draw: short ones, in which a lot happens. The same dice draw the same story.

What a life meets is drawn in the order in which it is to come, its end last; so most of it happens.
"""

import random
from typing import Final, TypeVar

import msgspec

from fuzz.simulation.course import Course
from fuzz.simulation.story import (
    CREWED,
    DAMAGED,
    SERVERS,
    Break,
    Death,
    Fall,
    Fault,
    How,
    Life,
    Signal,
    Story,
    Trouble,
)

LEAST: Final = 3  # signals and faults that happen in a story that counts
_GENTLE: Final[tuple[How, ...]] = ("late", "late reply", "buffered")  # a row outlives it
_ROUGH: Final[tuple[How, ...]] = (
    "never arrives",
    "reply lost",
    "unnoticed",
    "hangs",
    "gateway",
    "gateway after",
)
_ONLY_RUNS: Final[tuple[How, ...]] = ("stray", "fails", "unwritten")
_ONLY_CONTROLS: Final[tuple[How, ...]] = ("twice", "nonsense", "another's")
_MIDDLES: Final = {"USR1": 4, "ASK": 1, "RIVAL": 2, "gentle": 8, "rough": 6, "leap": 1}
_IN_A_CHECKPOINT: Final = {"control": 6, "disk": 3, "fall": 2, "break": 1}
_AMONG_WORKERS: Final = {"worker": 8}
_CREWED: Final = 0.05  # of the stories: most servers are one process
_CUTS: Final = {"TERM": 3, "INT": 2, "death": 8}  # which leave rows to another life
_SURVIVED: Final = {"USR1": 3, "RIVAL": 2, "gentle": 6, "leap": 1}
_ENDS: Final = {**_CUTS, **_SURVIVED, "fall": 3, "break": 2, "rough": 3, "control": 2, "disk": 2}
_Kind = TypeVar("_Kind")
_PACES: Final = {  # tokens a second, and the longest ways, of rows that may outrun a checkpoint, or not
    (None, 0, 0): 6,
    (None, 0, 100): 1,
    (None, 20, 5): 1,
    (None, 500, 0): 1,
    (10.0, 0, 0): 6,
    (10.0, 20, 100): 1,
    (10.0, 0, 5): 2,
}
_change = msgspec.structs.replace


def drawn(dice: random.Random) -> Story:
    """One. Most have one life in which everything happens, and then the one that nothing happens to."""
    tokens_per_s, latency_ms, control_ms = _one_of(_PACES, dice)
    story = Story(
        rows=dice.choices((1, 2, 3, 4), (26, 5, 2, 1))[0],
        concurrency=dice.choice((256, 256, 2, 1)),
        tokens_per_s=tokens_per_s,
        latency_ms=latency_ms,
        control_ms=control_ms,
        mixed=dice.random() < 0.1,
        standing=dice.random() < 0.3,
        changes=dice.choices((1, 2), (7, 1))[0],
        dice=dice.randrange(1 << 16),
    )
    crewed = dice.random() < _CREWED
    if crewed:
        story = _change(story, workers=_workers(dice), link_ms=dice.choices((0, 5, 100), (5, 2, 1))[0])
    troubles = dice.choices((LEAST + 1, LEAST + 2, LEAST + 3), (20, 3, 1))[0]  # a few come too late
    lives, kept = list[Life](), 0
    while troubles > 0:
        many = troubles if dice.random() < 0.9 else dice.randint(1, troubles)
        life = _conditions(dice, story, is_later=bool(lives))
        if crewed and dice.random() < 0.4:
            life = _change(life, workers=_workers(dice))
        course = Course(dice, story, life.limit or story.rows, 0 if life.fresh else kept)
        for _ in range(many - 1):
            life = _with(_one_of(_middles(life, course), dice), life, course)
        lives.append(_with(_one_of(_ENDS if many == troubles else _CUTS, dice), life, course))
        troubles, kept = troubles - lives[-1].planned, course.kept
    return _change(story, lives=tuple(lives))


def _conditions(dice: random.Random, story: Story, *, is_later: bool) -> Life:
    """One to which nothing has happened yet, but what was harmed before it."""
    return Life(
        slow_ms=dice.choices((0, 300, 5000), (36, 3, 1))[0] if story.tokens_per_s else 0,
        every_s=dice.choices((None, 5.0), (19, 1))[0],
        harm=dice.choice(DAMAGED) if is_later and dice.random() < 0.2 else None,
        concurrency=dice.choice((None, None, 1, 2)),
        fresh=is_later and dice.random() < 0.1,
        limit=1 if dice.random() < 0.1 else None,
    )


def _workers(dice: random.Random) -> dict[str, int]:
    """How many the servers of a life have; sometimes none has more than one."""
    many = {name: dice.choice((1, 2, 2, 3)) for name in CREWED}
    return {} if dice.random() < 0.2 else {name: one for name, one in many.items() if one > 1}


def _middles(life: Life, course: Course) -> dict[str, int]:
    """What a life survives that has come so far."""
    kinds = _MIDDLES if course.rows > 1 else {kind: one for kind, one in _MIDDLES.items() if kind != "rough"}
    if life.workers_in(course.story):
        kinds = {**kinds, **_AMONG_WORKERS}
    return {**kinds, **_IN_A_CHECKPOINT} if course.checkpoints else kinds


def _one_of(table: dict[_Kind, int], dice: random.Random) -> _Kind:
    return dice.choices(list(table), list(table.values()))[0]


def _with(kind: str, life: Life, course: Course) -> Life:
    """The same, and one thing happens next."""
    dice = course.dice
    match kind:
        case "gentle" | "rough" | "control":
            more = {"faults": (*life.faults, _fault(kind, course))}
        case "disk":
            nth, many = course.beside_rows("files").at, dice.choice((1, 1, 1, 3, 1000))
            more = {"disk": (*life.disk, Trouble(nth, many, dice.choice(("EIO", "ENOSPC"))))}
        case "fall":
            more = {"falls": (*life.falls, Fall(course.moment(), dice.choice(SERVERS)))}
        case "worker":
            workers = life.workers_in(course.story)
            name = dice.choice(list(workers))
            away_ms = dice.choices((0, 300, 5000), (3, 2, 1))[0]
            fall = Fall(course.moment(), name, dice.randint(1, workers[name]), away_ms)
            more = {"falls": (*life.falls, fall)}
        case "break":
            seen = dice.choice(("by both", "by servers"))
            more = {"breaks": (*life.breaks, Break(course.moment(), seen))}
        case "leap":
            more = {"leap": course.moment()}
        case "death":
            who = ("collector", "collector", "everybody", "machine")
            whose = dice.choice(who if course.story.standing else who[2:])
            more = {"death": Death(course.moment(), whose)}
        case _:
            more = {"signals": (*life.signals, *_signals(kind, course))}
    return _change(life, **more)


def _fault(kind: str, course: Course) -> Fault:
    """Of a row, which may fail of it, or of a word to a participant."""
    dice = course.dice
    if kind == "control":
        return Fault(
            "control", course.beside_rows("controls").at, dice.choice((*_GENTLE, *_ROUGH, *_ONLY_CONTROLS))
        )
    hows = _GENTLE if kind == "gentle" else _ROUGH
    if course.has_rows_to_send and dice.random() < 0.3:
        fault = Fault(
            "run", course.row_begins(), dice.choice(hows if kind == "gentle" else (*hows, *_ONLY_RUNS))
        )
    else:
        fault = Fault("peer", course.answer().at, dice.choice(hows))
    if kind == "rough":
        course.loses_row()
    return fault


def _signals(what: str, course: Course) -> tuple[Signal, ...]:
    """One; of those that end a life sometimes two."""
    first = Signal(course.moment(), what)
    if what != "RIVAL" and first.when.of == "answers":
        course.cuts()
    if what in {"TERM", "INT"} and course.dice.random() < 0.3:
        return first, Signal(course.moment(), what)
    return (first,)
