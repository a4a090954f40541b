"""A participant that hangs, answers nothing, restarts or answers strangely costs at most that checkpoint."""

import httpx
import pytest
import trio

from tests.checkpoint.world import KINDS, world
from triocollect.checkpoint.operation import RESUME_SLACK_S
from triocollect.checkpoint.orders import NotPublished, Published
from triocollect.protocol.ids import EpisodeId, RowKey

ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


async def test_a_resume_that_is_answered_with_what_is_no_answer_is_owed(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["agent resume"] = [httpx.Response(200, content=b"<html>")]
        assert isinstance(await here.take(), Published)
        assert here.coordination.owes
        assert here.phases["agent"] == "closed"
        await here.coordination.settle_owed()
        assert not here.coordination.owes
        assert here.all_open


async def test_a_participant_that_never_parks_delays_the_run_and_publishes_nothing(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="model")
        here.fly(1)
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert trio.current_time() == 300
        assert here.latest is None
        assert [blocker.key for blocker in taken.blockers] == ["0-0"]
        assert "model one at http://model waits for 0-0 (a step is under way)" in taken.reason
        assert not any("agent prepare" in one for one in here.network.heard)
        assert here.all_open
        assert not list(tmp_path.glob("ckpt-*"))


async def test_a_participant_that_is_not_heard_of_is_named(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["agent prepare"] = ["stuck"]
        taken = await here.take(timeout_s=60)
        assert "agent one at http://agent does not answer" in taken.reason
        assert here.all_open


async def test_a_lost_answer_to_a_commit_is_asked_for_again(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model commit"] = ["reply lost"]
        here.network.faults["environment commit"] = ["unreachable"]
        assert isinstance(await here.take(), Published)
        assert here.on_disk.continued == (ZERO,)


async def test_a_participant_that_is_gone_fails_the_checkpoint_soon(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        await here.take()
        before = (tmp_path / "LATEST").read_bytes()
        del here.network.planes["resources"]
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert "resources one at http://resources: prepare brought no answer" in taken.reason
        assert trio.current_time() < 30
        assert (tmp_path / "LATEST").read_bytes() == before
        assert here.air.gate.is_open


async def test_a_participant_that_restarted_between_prepare_and_commit_fails_the_checkpoint(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model commit"] = [lambda: here.restart_server("model")]
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert here.latest is None
        assert here.all_open


async def test_a_participant_that_restarted_after_its_commit_fails_the_checkpoint(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model status"] = [lambda: here.restart_server("model")]
        taken = await here.take()
        assert "model one at http://model: restarted in the middle" in taken.reason
        assert here.latest is None
        assert here.air.ledger.torn.keys() == {RowKey(0, 0)}


async def test_a_participant_whose_lease_ended_during_the_commit_fails_the_checkpoint(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["environment status"] = [here.servers["environment"].admission.end_of_lease]
        taken = await here.take()
        assert "is open, not committed" in taken.reason
        assert here.latest is None


@pytest.mark.parametrize("silent", [["environment"], ["resources", "agent", "model"], [*KINDS]])
async def test_servers_that_are_silent_at_the_end_hold_rows_up_for_little_beyond_the_timeout(
    tmp_path, autojump_clock, silent
):
    async with world(tmp_path) as here:
        here.fly(0, busy="resources")
        for kind in silent:
            here.network.faults[f"{kind} resume"] = ["stuck"]
        began = trio.current_time()
        assert isinstance(await here.take(timeout_s=20), NotPublished)
        assert trio.current_time() - began <= 20 + 1 + RESUME_SLACK_S
        assert here.air.gate.is_open
        closed = [kind for kind, phase in here.phases.items() if phase == "closed"]
        assert closed == [kind for kind in KINDS if kind in silent], "no other is left closed"


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, content=b"<html>"),
        httpx.Response(200, content=b"{}"),
        httpx.Response(200, content=b'{"boot":1}'),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(200, content=b"\xff\xfe"),
        httpx.Response(302, headers={"location": "http://elsewhere"}),
        httpx.Response(500, content=b"\xff" * 5000),
        httpx.Response(409, json={"error": "no"}),
        httpx.Response(409, json={"error": {"code": "strange", "detail": "who knows"}}),
    ],
)
@pytest.mark.parametrize("route", ["prepare", "commit", "status"])
async def test_a_strange_answer_fails_the_checkpoint_and_names_who_gave_it(
    tmp_path, autojump_clock, answer, route
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults[f"model {route}"] = [answer]
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert taken.reason.startswith("model one at http://model: ")
        assert len(taken.reason) < 600
        assert here.all_open
