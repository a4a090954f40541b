"""What a participant says that it cannot capture is in no checkpoint, whenever it says so."""

import pytest
import trio
from trio.testing import MockClock

from fuzz.invariants import all_hold
from fuzz.kinds import MAKE
from tests.checkpoint.world import KINDS, world
from tests.participant.harness import ONE, TWO, commit, inline, participant
from triocollect.checkpoint.orders import Published
from triocollect.participant import Admission
from triocollect.servers.agent.session import Session


async def is_exported(root, *, told):
    """Whether a participant obeys a commit that has in its scope what cannot be captured. `told`: at once."""
    async with participant(root, in_thread=inline) as caller:
        await caller.add(ONE)
        await caller.add(TWO)
        caller.counts.restarts = [ONE] if told else []
        await caller.ok("prepare", 1)
        caller.counts.restarts = [ONE]
        status, body = await caller.post("commit", 1, **commit(1, ONE, TWO))
        assert status == 200 or body["code"] == "restart_in_scope"
        return status == 200


@pytest.mark.parametrize("told", [True, False])
def test_a_scope_that_has_it_is_refused(tmp_path, told):
    is_there = trio.run(lambda: is_exported(tmp_path, told=told))
    all_hold((12, 13), not is_there, f"{ONE.capture_key} cannot be captured, and a commit exports it")


async def is_continued(root, who, *, told):
    """Whether a published checkpoint has a row of which one participant cannot capture its part."""
    async with world(root) as here:
        torn, _ = here.fly(0), here.fly(1)
        if told:
            here.servers[who].restarts = [torn]
        else:  # it is found out later, as the last one gets ready
            here.network.faults["resources prepare"] = [lambda: here.servers[who].restarts.append(torn)]
        taken = await here.take()
        return isinstance(taken, Published) and torn in taken.continued


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("who", KINDS)
def test_its_row_is_not_continued_whoever_says_so(tmp_path, who, told):
    is_there = trio.run(lambda: is_continued(tmp_path, who, told=told), clock=MockClock(autojump_threshold=0))
    all_hold((12, 13), not is_there, f"{who} cannot capture a row, and a checkpoint continues it")


async def reports():
    """Of a server that keeps nothing, and of an agent that cannot tell what a tool has done."""
    keeps_nothing, torn = MAKE["restart only"](Admission()), MAKE["agent"](Admission())
    await trio.lowlevel.checkpoint()
    keeps_nothing.admission.enter(ONE, None)
    torn.begin(Session(episode=ONE, agent="one"))
    torn.tear(ONE)
    return {hooks.kind: hooks.report() for hooks in (keeps_nothing, torn)}


def test_who_keeps_nothing_and_who_is_torn_says_so():
    for kind, report in trio.run(reports).items():
        is_told = ONE.capture_key in report.restarts
        all_hold((12, 13), is_told, f"the {kind} cannot capture {ONE.capture_key}, and does not say so")
