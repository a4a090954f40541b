"""`python -m fuzz live`: real signals to real processes, story after story, until the time is over."""

import math
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import trio

from fuzz.commands import Options
from fuzz.jobs import share
from fuzz.live.drawing import drawn
from fuzz.live.lives import Lived, Stage
from fuzz.live.processes import zygote
from fuzz.live.story import Story, told_by
from fuzz.scratch import PREFIX, SCRATCH
from fuzz.tally import Tally

AT_ONCE: Final = 5  # stories of one process: most of their time they wait
LAST_S: Final = 4.0  # in which no story begins any more


def explore(options: Options, tally: Tally) -> None:
    """Live drawn stories in several processes; with a replay that one story."""
    share(explored, options, tally)


def explored(options: Options, tally: Tally) -> None:
    """What one process does of it."""
    if options.replay is not None:
        trio.run(tell_all, [told_by(options.replay)], tally)
        return
    dice, deadline = random.Random(options.seed), time.monotonic() + options.seconds
    stories = iter(lambda: drawn(dice) if time.monotonic() < deadline - LAST_S else None, None)
    trio.run(tell_all, stories, tally, options.seconds)


async def tell_all(stories: Iterable[Story], tally: Tally, seconds: float = math.inf) -> list[list[Lived]]:
    """Several at once: their lives in order; none of one that broke something, or took too many seconds."""
    told: dict[int, list[Lived]] = {}
    numbered = iter(enumerate(stories))
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=SCRATCH) as folder:
        async with zygote() as bearer:
            stage = Stage(bearer, Path(folder))
            with trio.move_on_after(seconds):
                async with trio.open_nursery() as nursery:
                    for _ in range(AT_ONCE):
                        nursery.start_soon(_tell_each, stage, numbered, tally, told)
    return [lives for _, lives in sorted(told.items())]


async def _tell_each(
    stage: Stage, stories: Iterable[tuple[int, Story]], tally: Tally, told: dict[int, list[Lived]]
) -> None:
    for nth, story in stories:
        told[nth] = []
        told[nth] = await tell(stage, story, tally)


async def tell(stage: Stage, story: Story, tally: Tally) -> list[Lived]:
    """Live it and count what happened; nothing came of one that broke something."""
    try:
        lived = await stage.tell(story)
    except Exception as error:  # noqa: BLE001  # whatever a run does, the next story is told
        said = "\n".join(f"{type(one).__name__}: {one}" for one in _leaves(error))
        tally.violation(said, tally.replay(story.text))
        return []
    tally.explored += 1
    for nth, life in enumerate(lived, 1):
        for struck in life.struck:
            strike = struck.strike
            past = " past its lease" if strike.leases > 1 else ""
            place = f"life {nth}, {strike.whom} at {strike.of} {strike.at}, {struck.phase}"
            whom = strike.struck(life.workers)
            tally.fault(f"SIG{strike.what} to {whom}{past}", place, story.text, outcome(life))
    for nth, (before, life) in enumerate(pairwise(lived), 2):
        if before.workers != life.workers and life.continued:
            place = f"life {nth}, {before.workers} to {life.workers}"
            tally.fault("another number of workers", place, story.text, outcome(life))
    return lived


def outcome(life: Lived) -> str:
    """The end of a life, in a word or two."""
    return {0: "done", 75: "stopped", 130: "left", -9: "killed", 1: "a server died"}.get(life.code, "died")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
