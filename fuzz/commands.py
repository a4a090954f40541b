"""What can be explored: a table of commands, each a function that gets options and a tally."""

import importlib
import math
from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import frozen

from fuzz.tally import Tally


@frozen
class Options:
    """What every command takes. `replay`: what a violation named, as the command itself wrote it."""

    seconds: float
    seed: int
    jobs: int = 2
    replay: str | None = None


def again(command: str, options: Options) -> str:
    """The words that have it done once more."""
    given = f"--seconds {max(1, math.ceil(options.seconds))} --seed {options.seed} --jobs {options.jobs}"
    return f"python -m fuzz {command} {given}"


Explore: TypeAlias = Callable[[Options, Tally], None]


@frozen
class Command:
    """One row of the table. `where`: "module:function", imported when it is asked for.

    `part`: minutes in a pass of `all` that takes 40; of a longer one in proportion. `again`: what its replays
    look like.
    """

    where: str
    what: str
    seconds: float
    part: float = 0.0
    again: str = "what a violation printed"


def function_of(command: Command) -> Explore:
    """What a row of the table names."""
    module, _, function = command.where.partition(":")
    explore: Explore = getattr(importlib.import_module(module), function)
    return explore


COMMANDS: Final = {
    "files": Command(
        "fuzz.files.explore:explore",
        "harm every file that a run reads, and hold what it makes of it against an oracle that reads bytes",
        120.0,
        part=1.2,
        again="PLACE:NUMBER",
    ),
    "sim": Command(
        "fuzz.simulation.explore:explore",
        "whole runs in simulated time, with faults of network, disk and processes",
        55.0,
        part=4.0,
        again="a story, a line of JSON",
    ),
    "peers": Command(
        "fuzz.peers.explore:explore",
        "have servers break HTTP, and participants and controllers lie, against both sides of the protocol",
        60.0,
        part=4.0,
        again="FAMILY:NUMBER",
    ),
    "live": Command(
        "fuzz.live.explore:explore",
        "real signals to real collectors and servers, at any moment of any of their lives",
        55.0,
        part=2.0,
        again="a story, a line of JSON",
    ),
    "killpoints": Command(
        "fuzz.disk.killpoints:explore",
        "kill a run at every call that changes a file, and amid every write, and go on to the end",
        55.0,
        part=2.0,
        again="SCENARIO:NUMBER:before, or amid, +NUMBER for a second one",
    ),
    "ioerrors": Command(
        "fuzz.disk.ioerrors:explore",
        "have the disk fail at every call of a run, once or from then on, or take half of a write",
        55.0,
        part=2.0,
        again="SCENARIO:NUMBER:ERROR, :stays where it does",
    ),
    "powercut": Command(
        "fuzz.disk.powercut:explore",
        "cut the power of a real disk, XFS or ext4, while a run works on it, again and again (needs root)",
        120.0,
        part=1.5,
        again="xfs:NUMBER or ext4:NUMBER",
    ),
    "traced": Command(
        "fuzz.disk.traced:explore",
        "kill the real command, or answer it with errors, at calls on its files (needs strace)",
        120.0,
        part=1.5,
        again="FAULT@CALL@FILE@NUMBER, one for each life",
    ),
    # The last of a pass: what the others leave of their time is its own, and it finds most in it.
    "crashstates": Command(
        "fuzz.disk.crashstates:explore",
        "cut the power at every point of recorded runs, and start on every state that can be left",
        55.0,
        part=22.0,
        again="NUMBER, or NUMBER: and a story, a line of JSON",
    ),
    "mutants": Command(
        "fuzz.mutants.run:explore",
        "plant flaws in the package and see that the short profile names each",
        0.0,
        again="a patch whose first line names what it breaks, as 'invariant 5: why', or a folder of such",
    ),
}
