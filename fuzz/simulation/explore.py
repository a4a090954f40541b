"""`python -m fuzz sim`: whole runs in simulated time, story after story, until the time is over."""

import contextlib
import logging
import math
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from fuzz.commands import Options
from fuzz.garbage import rarely_collected
from fuzz.invariants import BrokenError
from fuzz.jobs import share
from fuzz.quiet import quiet
from fuzz.scratch import scratch
from fuzz.simulation.drawing import LEAST, drawn
from fuzz.simulation.lives import Lived, live
from fuzz.simulation.shrinking import minimal
from fuzz.simulation.story import Story, told_by
from fuzz.tally import Tally

SHRINKING_S: Final = 20.0
_STORIES_BETWEEN: Final = 25  # of two looks for garbage
MOST_ATTEMPTS: Final = "100"  # of a row: none is given up


def explore(options: Options, tally: Tally) -> None:
    """Live drawn stories in several processes; with a replay that one story."""
    share(explored, options, tally)


def explored(options: Options, tally: Tally, stories: float = math.inf, until: int | None = None) -> None:
    """What one process does in its seconds, or in so many `stories`. The same seed draws the same ones.

    `until`: it ends with the first story that shows this invariant broken, told as it is.
    """
    if options.replay is not None:
        tell(told_by(options.replay), tally, Counter(), shrinking_s=0.0)
        return
    dice, deadline = random.Random(options.seed), time.monotonic() + options.seconds
    seen, nth = Counter[str](), 0
    shrinking_s = SHRINKING_S if until is None else 0.0
    with rarely_collected() as collect, said_at_the_end(tally, seen):
        while time.monotonic() < deadline and nth < stories and not _is_told(tally, until):
            if nth % _STORIES_BETWEEN == 0:
                collect()
            tell(drawn(dice), tally, seen, shrinking_s=min(shrinking_s, deadline - time.monotonic()))
            nth += 1


def _is_told(tally: Tally, until: int | None) -> bool:
    return any(f"invariant {until} is broken" in violation for violation in tally.violations)


@contextlib.contextmanager
def said_at_the_end(tally: Tally, seen: Counter[str]) -> Iterator[None]:
    """Of each violation, how many more stories showed it: the first of a kind is told, all are counted."""
    first = len(tally.violations)
    try:
        yield
    finally:
        for at, many in enumerate(seen.values(), first):
            if many > 1:
                tally.violations[at] += f"\nand {many - 1} more stories showed the same"


def tell(story: Story, tally: Tally, seen: Counter[str], *, shrinking_s: float) -> None:
    """Live it and count what happened; a violation of a kind that was not `seen` is made small first."""
    try:
        lived = told(story)
    except Exception as error:  # noqa: BLE001  # whatever a run does, the next story is told
        name = _name(error)
        seen[name] += 1
        if seen[name] > 1:
            return
        small = minimal(story, lambda one: _fails_as(one, name), shrinking_s)
        tally.violation(f"{type(error).__name__}: {error}", tally.replay(small.text))
        return
    if lived.struck >= LEAST:
        tally.explored += 1
    for nth, living in enumerate(lived.lives):
        for kind, place in living.struck:
            tally.fault(kind, f"life {nth}: {place}", story.digest, living.outcome)


@quiet(logging.CRITICAL)
def told(story: Story) -> Lived:
    """Live a story in a folder of its own. Raises BrokenError, and whatever else goes wrong."""
    before = os.environ.get("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS")
    os.environ["NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"] = MOST_ATTEMPTS
    root = scratch()
    try:
        return live(root, story)
    finally:
        os.environ.pop("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS")
        if before is not None:
            os.environ["NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"] = before
        shutil.rmtree(root)


def _name(error: Exception) -> str:
    return f"invariant {error.number}" if isinstance(error, BrokenError) else type(error).__name__


def _fails_as(story: Story, name: str) -> bool:
    try:
        told(story)
    except Exception as error:  # noqa: BLE001  # it is what is looked for
        return _name(error) == name
    return False
