"""What was restored: who uses it up, where it goes at the next checkpoint, and when it is gone."""

import json

import trio

from tests.servers.cutting import (
    ACTIVATE,
    CONTINUED,
    IN_ORDER,
    ROW,
    Rollout,
    calls_of_the_worker,
    crew,
    effects,
    the_code,
)
from tests.servers.wired import COUNTER_ROW, an_episode
from triocollect.protocol.ids import EpisodeId


async def committed_at_the_activation(old):
    """A checkpoint with r in front of its activation; the rollout is left where it is."""
    stop = old.deployment.stop("agent", ACTIVATE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Rollout(old, ROW).fly)
        await stop.reached.wait()
        await old.prepare()
        committed = await old.commit(EpisodeId("r"))
        nursery.cancel_scope.cancel()
    return committed


async def test_what_was_not_restored_is_not_run(tmp_path):
    async with crew(tmp_path) as all_of_them:
        reply = await Rollout(all_of_them, ROW, 3, **CONTINUED).landed()
        assert the_code(reply) == (409, "not_restored")
        assert effects(tmp_path) == []


async def test_a_restored_record_is_used_up_by_a_start_that_succeeds_and_by_nothing_else(tmp_path):
    async with crew(tmp_path) as old:
        committed = await committed_at_the_activation(old)
    async with crew(tmp_path, epoch=2) as fresh:
        await fresh.restore(committed, r=1)
        other = await Rollout(fresh, ROW, 2, **CONTINUED).landed()
        assert the_code(other) == (409, "not_restored")
        another_task = {**ROW, "expected_change": 8}
        assert the_code(await Rollout(fresh, another_task, 1, **CONTINUED).landed()) == (409, "task_mismatch")
        await fresh.prepare()
        assert the_code(await Rollout(fresh, ROW, 1, **CONTINUED).landed()) == (409, "checkpoint_open")
        await fresh.resume()
        assert (await Rollout(fresh, ROW, 1, **CONTINUED).landed()).status_code == 200
        assert the_code(await Rollout(fresh, ROW, 1, **CONTINUED).landed()) == (409, "not_restored")


async def test_what_is_restored_and_not_asked_for_is_in_the_next_checkpoint(tmp_path):
    async with crew(tmp_path) as old:
        committed = await committed_at_the_activation(old)
    async with crew(tmp_path, epoch=2) as between:
        await between.restore(committed, r=1)
        await between.prepare()
        place, answers = await between.commit(EpisodeId("r", 1))
    assert [name for name in IN_ORDER if answers[name]["exported"]] == ["environment", "agent", "counter"]
    async with crew(tmp_path, epoch=3) as fresh:
        for name in IN_ORDER:
            scope = [{"rollout_id": "r", "attempt": 1, "becomes": 2}]
            fields = {"manifest_sha256": answers[name]["manifest"]["sha256"], "scope": scope}
            await fresh.ok(name, "restore", **place, **fields)
        await fresh.resume()
        assert (await Rollout(fresh, ROW, 2, **CONTINUED).landed()).status_code == 200
    assert [line["effect"] for line in effects(tmp_path)] == ["seed", "increment", "increment"]


async def test_what_is_restored_and_in_no_scope_is_gone_after_the_next_checkpoint(tmp_path):
    async with crew(tmp_path) as old:
        committed = await committed_at_the_activation(old)
    async with crew(tmp_path, epoch=2) as fresh:
        await fresh.restore(committed, r=1)
        assert fresh.kept()["restored"] == 3
        await fresh.prepare()
        await fresh.commit()
        await fresh.resume()
        assert set(fresh.kept().values()) == {0}
        assert the_code(await Rollout(fresh, ROW, 1, **CONTINUED).landed()) == (409, "not_restored")


async def test_an_episode_request_is_continued_too(tmp_path):
    async with crew(tmp_path) as old, trio.open_nursery() as nursery:
        stop = old.deployment.stop("counter", "/verify")
        nursery.start_soon(Rollout(old, an_episode(COUNTER_ROW, rollout_id="r")).fly)
        await stop.reached.wait()
        await old.prepare()
        committed = await old.commit(EpisodeId("r"))
        nursery.cancel_scope.cancel()
    async with crew(tmp_path, epoch=2) as fresh:
        await fresh.restore(committed, r=1)
        again = an_episode(COUNTER_ROW, rollout_id="r", attempt=1)
        reply = await Rollout(fresh, again, **CONTINUED).landed()
        assert reply.json()["episode_id"] == {"rollout_id": "r", "attempt": 1}
        assert reply.json()["result"]["effects"] == 2
        assert await calls_of_the_worker(fresh) == 0


async def test_a_session_with_json_that_looks_like_an_escape_comes_back_as_it_was(tmp_path):
    odd = {"$float": "nan"}
    params = {**ROW["responses_create_params"], "metadata": odd, "big": 2**80, "text": "line\nend"}
    row = {**ROW, "responses_create_params": params}
    async with crew(tmp_path) as old, trio.open_nursery() as nursery:
        stop = old.deployment.stop("policy_model", ACTIVATE, "after")
        nursery.start_soon(Rollout(old, row).fly)
        await stop.reached.wait()
        await old.prepare()
        committed = await old.commit(EpisodeId("r"))
        nursery.cancel_scope.cancel()
    async with crew(tmp_path, epoch=2) as fresh:
        await fresh.restore(committed, r=1)
        stop = fresh.deployment.stop("inference", "/v1/responses")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Rollout(fresh, row, 1, **CONTINUED).fly)
            await stop.reached.wait()
            (call,) = fresh.hooks("policy_model").calls.serving.values()
            stop.go.set()
    asked = json.loads(call.request)
    assert (asked["metadata"], asked["big"], asked["text"]) == (odd, 2**80, "line\nend")


async def test_what_was_restored_of_a_retired_attempt_is_gone(tmp_path):
    async with crew(tmp_path) as old:
        committed = await committed_at_the_activation(old)
    async with crew(tmp_path, epoch=2) as fresh:
        await fresh.restore(committed, r=1)
        await fresh.retire(EpisodeId("r", 1))
        assert set(fresh.kept().values()) == {0}
