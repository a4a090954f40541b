"""Another collector on the checkpoint directory of one that is at work: it is refused, and leaves nothing."""

import trio
from attrs import evolve

from fuzz.simulation.calls import Calls
from triocollect.collector.run import run
from triocollect.collector.setup import Setup
from triocollect.errors import LockedError
from triocollect.transport import Client

REFUSED_S = 1.0  # is more than it takes


async def contend(living) -> None:
    """The same command once more; in every other story with an output of its own."""
    world, own = living.world, None
    config = world.config(living.life)
    if world.story.dice % 2:
        own = world.folder / "another.jsonl"
        config = evolve(config, output=evolve(config.output, path=own))
    transport = Client(connect=living.connect)
    setup = Setup(
        config=config,
        transport=transport,
        listener=lambda _event: None,
        blocking=living.blocking,
        deployment=_nowhere,
        control=Calls(world.network, lambda: living.dead),
    )
    try:
        with trio.move_on_after(REFUSED_S):
            await run(setup)
        living.oracle.holds(2, living.dead, "another collector is at work beside this one")
    except* LockedError:
        pass
    finally:
        living.oracle.holds(2, own is None or not own.exists(), "who was refused has an output")
        with trio.CancelScope(shield=True):
            await transport.aclose()


async def _nowhere(*_: object) -> str:
    await trio.sleep_forever()
    raise AssertionError
