"""A start that is played without servers makes the calls of a real one on its files, in that order."""

import pytest

from fuzz.disk.calls import watched
from fuzz.disk.places import SCENARIOS, Watching, bases, calls_of, named, scene
from fuzz.starting import begin

NOT_OF_IT = (
    "checkpoints/collector.pid",  # whoever may signal it finds it here
    "checkpoints/dispatched.jsonl",  # once it is begun, what is sent or installed
    "checkpoints/capture",  # the servers'
)


def steps(calls):
    """Each call that belongs to the start itself."""
    return [named(call) for call in calls if not call.split()[1].startswith(NOT_OF_IT)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_a_start_without_servers_goes_the_way_of_a_real_one(scenario):
    with bases([scenario]) as made:
        base = made[scenario.name]
        real = steps(calls_of(scenario, base))
        with scene(scenario, base) as world:
            log = world.root / "calls"
            with watched(world.folder, Watching(log)):
                begun = begin(world.config(scenario.life))
                begun.outset.record_directory()
            begun.close()
            played = steps(log.read_text().splitlines())
    assert len(played) > 20
    assert played == real[: len(played)]
