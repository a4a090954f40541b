"""What is broken on a disk after a blow, and in the life that goes on from there to the end."""

from collections.abc import Sequence

from fuzz.disk.children import facts_of, lived, sum_of, why
from fuzz.disk.demands import OUTPUT, keys_in, of_end, of_files
from fuzz.disk.places import Watching, next_life
from fuzz.disk.results import files_in, named_in
from fuzz.disk.storage import Fact
from fuzz.simulation.world import World


def afterwards(world: World) -> list[tuple[int, str]]:
    """The invariants, and what was seen."""
    told = _of_ledger(facts_of(world))
    before, files = sum_of(facts_of(world)), files_in(world.folder)
    faults = list(of_files(keys_in(files), named_in(files), before))
    next_life(world)
    end = lived(world, Watching())
    if end != "ended":
        return [*faults, (15, f"the next run {end}: {why(world)}")]
    output = files_in(world.folder).get(OUTPUT) or b""
    if not output.startswith(_whole_lines(files.get(OUTPUT) or b"")):
        faults.append((1, "whole lines of the output have changed"))
    more = _of_ledger(facts_of(world))[len(told) :]
    return [*faults, *of_end(output, more, before, world.story.rows)]


def _of_ledger(facts: Sequence[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.what != "acknowledged"]


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]
