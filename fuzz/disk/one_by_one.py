"""Every place of the scenarios, one after another, in an order in which neighbours are far apart."""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from fuzz.commands import Options
from fuzz.disk.places import SCENARIOS, Scenario, bases
from fuzz.quiet import quiet


class Place(Protocol):
    """Somewhere in a scenario; a replay names it as `str` does."""

    @property
    def scenario(self) -> Scenario: ...


P = TypeVar("P", bound=Place)


def one_by_one(
    options: Options, all_of: Callable[[dict[str, Path]], Iterable[P]], *, named: str | None
) -> Iterator[tuple[P, Path]]:
    """As many as there is time for, from another one each time, or the one that is `named`.

    Each with the folder that its scenario's life begins with. Raises ValueError where none has that name.
    """
    deadline = time.monotonic() + options.seconds
    if named is not None and named.partition(":")[0] not in {one.name for one in SCENARIOS}:
        raise ValueError(f"there is no place {named!r}")  # said at once: the bases take a while
    with quiet(), bases() as made:
        places = list(all_of(made))
        if named is not None:
            place = next((one for one in places if str(one) == named), None)
            if place is None:
                raise ValueError(f"there is no place {named!r}")
            yield place, made[place.scenario.name]
            return
        begin, gone = options.seed % len(places), 0
        for nth in spread(len(places), begin):
            if time.monotonic() > deadline:
                break
            yield places[nth], made[places[nth].scenario.name]
            gone += 1
        print(f"{gone} of {len(places)} places, from {begin} on", flush=True)


def spread(count: int, begin: int) -> Iterator[int]:
    """All numbers below, each once, neighbours far from each other."""
    step = next(one for one in itertools.count(int(count * 0.618)) if math.gcd(one, count) == 1)
    return ((begin + nth * step) % count for nth in range(count))
