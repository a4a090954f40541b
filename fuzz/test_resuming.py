"""A machine that sleeps while a collector opens its participants: each is asked, and none stays closed."""

import math

import pytest
import trio
from trio.testing import MockClock

from fuzz.invariants import holds
from triocollect.checkpoint.operation import CLOSING, Operation
from triocollect.protocol.messages import Resumed

COMMON = {"run": "r", "epoch": 1, "operation": 1, "budget_ms": 0, "lease_ms": 60_000}


class Closed:
    """A participant that opens when it is asked to; the machine sleeps so often as it is about to be."""

    lease_until = math.inf

    def __init__(self, kind, clock, sleeps):
        self.kind, self.is_open = kind, False
        self._clock, self._sleeps = clock, sleeps

    async def post(self, verb, call, answer):
        assert (verb, answer) == ("resume", Resumed)
        if self._sleeps:
            self._sleeps -= 1
            self._clock.jump(3600.0)
        await trio.lowlevel.checkpoint()
        self.is_open = True


@pytest.mark.parametrize("sleeps", [1, 2])
@pytest.mark.parametrize("who", CLOSING)
def test_a_machine_that_sleeps_as_a_kind_is_asked_to_open_asks_it_again(who, sleeps):
    clock = MockClock()
    participants = [Closed(kind, clock, sleeps if kind == who else 0) for kind in CLOSING]
    owed = trio.run(Operation(participants, COMMON).resume, 0.0, clock=clock)
    closed = [one.kind for one in participants if not one.is_open]
    holds(8, not owed and not closed, f"nobody asked {', '.join(closed)} to open: the machine had slept")
