"""Live a story in one process and in simulated time, and ask the oracle all along."""

import contextlib
import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio
import trio.testing

from fuzz.descriptors import open_files
from fuzz.invariants import BrokenError, holds, raise_all
from fuzz.simulation.living import Living
from fuzz.simulation.oracle import Oracle
from fuzz.simulation.story import CHECKPOINT_S, UNDISTURBED, Story
from fuzz.simulation.world import World
from triocollect.errors import reason_of

LEASES_S = 3 * CHECKPOINT_S + 60.0  # after which nobody is closed that nobody closes again


class Lived:
    """How a story went: what struck, by life, and how each ended. `broken`: what did not hold, to its end."""

    def __init__(self, world: World):
        self.oracle: Oracle = world.oracle
        self.lives: list[Living] = []
        self.broken: list[BrokenError] = []

    def ask(self, question: Callable[[], None]) -> None:
        """What one life has broken may show in the next one as well."""
        try:
            question()
        except BrokenError as error:
            self.broken.append(error)

    @property
    def struck(self) -> int:
        return sum(len(living.struck) for living in self.lives)


async def _live_all(world: World, lived: Lived) -> None:
    async with trio.open_nursery() as machine:
        for life in (*world.story.lives, UNDISTURBED):
            harmed = world.harm(life)
            anew = await world.stand(machine, life)
            living = world.living = Living(world, life)
            lived.lives.append(living)
            if harmed:
                living.strikes("zeros", str(life.harm))
            world.network.begin(living, life.faults)
            world.oracle.begin(living.servers, life, anew=anew)
            living.began = trio.current_time()
            async with trio.open_nursery() as own:  # whose tasks have the collector's context
                own.start_soon(living.live)
            living.ended = trio.current_time()
            if living.dead and life.death is not None and life.death.of == "machine":
                world.lose_power()
            lived.ask(partial(world.oracle.end, living.report, told=living.told_at is not None))
        await trio.sleep(LEASES_S)
        lived.ask(partial(world.oracle.finish, living.report))
        machine.cancel_scope.cancel()


def broken_off(fault: BaseException) -> BaseException:
    """A run that ends by an error which nobody was told of does not add up, whatever else it breaks."""
    if isinstance(cause := fault.__cause__, KeyboardInterrupt):  # it came within trio itself
        return cause
    if not isinstance(fault, Exception) or isinstance(fault, BrokenError):
        return fault
    return BrokenError(15, f"it breaks off by {type(fault).__name__}: {fault}")


def live(root: Path, story: Story) -> Lived:
    """Live it. Raises BrokenError."""
    world, open_before = World(root, story), open_files()
    lived = Lived(world)
    world.clock = trio.testing.MockClock(autojump_threshold=0)
    with world.simulated():
        try:
            trio.run(_live_all, world, lived, clock=world.clock)
        except BaseExceptionGroup as group:
            fault = reason_of(group)
            if isinstance(fault, BrokenError):
                lived.broken.append(fault)
            else:
                with contextlib.suppress(Exception):  # of what the life left half done
                    lived.ask(partial(world.oracle.end, None, told=True))
                if not lived.broken:
                    raise broken_off(fault) from group
        except Exception as error:
            if not lived.broken:
                raise broken_off(error) from error
    raise_all(lived.broken)
    if open_files() > open_before:
        gc.collect()  # what went with an error is let go of with that
    holds(15, open_files() <= open_before, "something is left open")
    return lived
