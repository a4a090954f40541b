"""`python -m fuzz peers`: peers that break HTTP, and peers that lie, against both sides of the protocol.

Four families: a whole run and the client of control calls against a server on loopback that answers with any
bytes; the controller against participants that lie; a participant against controllers that lie. A case is a
family and a number.
"""

import random
import time
from collections.abc import Callable
from typing import Final

from attrs import frozen

from fuzz.commands import Options
from fuzz.invariants import BrokenError
from fuzz.jobs import share
from fuzz.peers.control import control_meets_http
from fuzz.peers.controllers import controllers_lie
from fuzz.peers.participants import participants_lie
from fuzz.peers.rows import rows_meet_http
from fuzz.tally import Tally

MOST_VIOLATIONS: Final = 10


@frozen
class Family:
    """`live`: one case. `at_once`: so many cases in a turn; those over real sockets mostly wait."""

    live: Callable[[int, Tally], None]
    at_once: int


FAMILIES: Final = {
    "rows": Family(rows_meet_http, 1),
    "control": Family(control_meets_http, 1),
    "participants": Family(participants_lie, 240),
    "controllers": Family(controllers_lie, 240),
}


def try_one(family: str, number: int, tally: Tally) -> None:
    """One case, and the violation that it may be."""
    try:
        FAMILIES[family].live(number, tally)
    except Exception as error:  # noqa: BLE001  # whatever it is, nobody should have raised it
        reason = _first(error)
        if not isinstance(reason, BrokenError):
            reason = BrokenError("words", f"{type(reason).__name__}: {reason}")
        tally.violation(f"{family}: {reason}", f"python -m fuzz peers --replay {family}:{number}")


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def some(options: Options, tally: Tally) -> None:
    """The work of one process."""
    until, dice = time.monotonic() + options.seconds, random.Random(options.seed)
    while True:
        for name, family in FAMILIES.items():
            for _ in range(family.at_once):
                try_one(name, dice.getrandbits(48), tally)
                if time.monotonic() > until or len(tally.violations) >= MOST_VIOLATIONS:
                    return


def explore(options: Options, tally: Tally) -> None:
    """See `python -m fuzz peers`."""
    if options.replay is not None:
        family, _, number = options.replay.rpartition(":")
        if family not in FAMILIES:
            raise ValueError(f"there is no family {family!r}")
        try_one(family, int(number), tally)
    else:
        share(some, options, tally)
