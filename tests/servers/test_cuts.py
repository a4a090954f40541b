"""Rollouts that are cut in two at chosen moments: on fresh servers they end as if nothing had happened."""

from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.servers.cutting import ROW, Rollout, calls_of_the_worker, crew, effects
from triocollect.protocol.ids import EpisodeId

CALLS = 4  # of the policy, in an uninterrupted rollout of this row
KINDS_OF_OUTPUT = ["function_call", "function_call_output"] * 3 + ["message"]

# Where a request stands when the checkpoint comes, and what it keeps waiting, as (participant, why).
MOMENTS = {
    "the seed is on its way": (("counter", "/seed_session", "before"), ("environment", "seed")),
    "the seed is drawn": (("counter", "/seed_session", "after"), ("environment", "seed")),
    "the session is on its way": (("agent", "/v1/agent_sessions", "before"), None),
    "the session is open": (("agent", "/v1/agent_sessions", "after"), None),
    "the activation is on its way": (("agent", "/ng-rollout/r/v1/responses", "before"), None),
    "a policy call is on its way": (("policy_model", "/ng-rollout/r/v1/responses", "before"), None),
    "a policy call is under way": (("inference", "/v1/responses", "before"), None),
    "a policy call is answered": (("policy_model", "/ng-rollout/r/v1/responses", "after"), None),
    "a tool call is on its way": (("counter", "/increment", "before"), ("agent", "tool increment")),
    "a tool has had its effect": (("counter", "/increment", "after"), ("agent", "tool increment")),
    "a tool has read": (("counter", "/get_value", "after"), ("agent", "tool get_value")),
    "the activation is over": (("agent", "/ng-rollout/r/v1/responses", "after"), None),
    "the verdict is asked for": (("counter", "/verify", "before"), None),
    "the verdict is given": (("counter", "/verify", "after"), None),
    "the agent's session is closed": (("agent", "/v1/agent_sessions/close", "after"), None),
    "everything is closed": (("counter", "/close_session", "after"), None),
}
OVER = {"the agent's session is closed", "everything is closed"}  # its calls are of no use to anybody


@asynccontextmanager
async def cut_at(root, stop_at, blocks):
    """(crew, rollout, what was committed, how many answers were not delivered), cut at this moment."""
    async with crew(root) as old, trio.open_nursery() as nursery:
        stop = old.deployment.stop(*stop_at)
        rollout = Rollout(old, ROW)
        nursery.start_soon(rollout.fly)
        await stop.reached.wait()
        committed, undelivered = [], 0

        async def checkpoint():
            nonlocal undelivered
            reports = await old.prepare()
            undelivered = reports["policy_model"]["counts"]["undelivered"]
            committed.append(await old.commit(EpisodeId("r")))

        async with trio.open_nursery() as taking:
            taking.start_soon(checkpoint)
            if blocks is not None:
                name, why = blocks
                await wait_all_tasks_blocked()
                assert await old.blockers(name) == [("r", why)]
                assert committed == []
                stop.go.set()
        stop.go.set()
        await wait_all_tasks_blocked()
        assert not rollout.done.is_set(), "nothing ends while a checkpoint is open"
        yield old, rollout, committed[0], undelivered
        nursery.cancel_scope.cancel()


def the_story(reply):
    """What of a record is the same whatever number the counter began at."""
    assert reply.status_code == 200, reply.text
    record = reply.json()
    assert [item["type"] for item in record["response"]["output"]] == KINDS_OF_OUTPUT
    return record["reward"], record["final_value"] - record["start_value"], record["effects"]


def check_effects(lines):
    """One seed, and every change once, each on top of the one before."""
    assert [line["effect"] for line in lines] == ["seed", "increment", "increment"]
    assert len({line["state"]["seed"] for line in lines}) == 1
    assert [line["state"]["effects"] for line in lines] == [0, 1, 2]
    values = [line["state"]["value"] for line in lines]
    assert [value - values[0] for value in values] == [0, 3, 7]


async def an_uninterrupted_story(root):
    root.mkdir()
    async with crew(root) as whole:
        story = the_story(await Rollout(whole, ROW).landed())
        assert await calls_of_the_worker(whole) == CALLS
    return story


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_rollout_that_was_cut_ends_on_fresh_servers_as_if_it_had_not_been(moment, tmp_path):
    stop_at, blocks = MOMENTS[moment]
    async with cut_at(tmp_path, stop_at, blocks) as (old, _, committed, undelivered):
        before = await calls_of_the_worker(old)
        done = effects(tmp_path)
    assert effects(tmp_path) == done, "what was closed does nothing more"
    async with crew(tmp_path, epoch=2) as fresh:
        await fresh.restore(committed, r=3)
        rollout = Rollout(fresh, ROW, 3, **{"x-continued": "1"})
        stop = fresh.deployment.stop("agent", "/v1/agent_sessions/close")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rollout.fly)
            await stop.reached.wait()
            rows = fresh.hooks("policy_model").ledger.rows(EpisodeId("r", 3))
            stop.go.set()
        story = the_story(rollout.reply)
        after = await calls_of_the_worker(fresh)
        lost = undelivered + fresh.hooks("policy_model").ledger.undelivered
        kept = fresh.kept()
    assert story == await an_uninterrupted_story(tmp_path / "whole")
    lines = effects(tmp_path)
    check_effects(lines)
    assert {line["attempt"] for line in lines[len(done) :]} <= {3}
    assert before + after == CALLS + lost
    assert [row.parent for row in rows] == [None, *(row.call_id for row in rows)][: len(rows)]
    assert len(rows) == (0 if moment in OVER else CALLS)
    assert set(kept.values()) == {0}, kept


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_rollout_goes_on_after_a_checkpoint_as_if_there_had_been_none(moment, tmp_path):
    stop_at, blocks = MOMENTS[moment]
    async with cut_at(tmp_path, stop_at, blocks) as (old, rollout, _, _):
        await old.resume()
        await rollout.done.wait()
        story = the_story(rollout.reply)
        assert await calls_of_the_worker(old) == CALLS
        assert set(old.kept().values()) == {0}
    check_effects(effects(tmp_path))
    assert story == await an_uninterrupted_story(tmp_path / "whole")
