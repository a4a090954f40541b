"""What is over by its end, a retire, a hang-up or its collector's goodbye leaves nothing behind."""

import httpx
import trio
from trio.testing import wait_all_tasks_blocked

from tests.servers.cutting import ACTIVATE, ROW, Rollout, crew, the_code
from tests.servers.wired import hanging_up
from triocollect.protocol.ids import EpisodeId


async def test_a_retired_attempt_is_stopped_everywhere_freed_and_refused_from_then_on(tmp_path):
    async with crew(tmp_path) as all_of_them, trio.open_nursery() as nursery:
        stop = all_of_them.deployment.stop("inference", "/v1/responses")
        rollout = Rollout(all_of_them, ROW)
        nursery.start_soon(rollout.fly)
        await stop.reached.wait()
        with trio.fail_after(10):
            await all_of_them.retire(EpisodeId("r"))
        assert set(all_of_them.kept().values()) == {0}
        with trio.fail_after(10):
            await rollout.done.wait()
        assert the_code(rollout.reply) == (409, "stale_attempt")
        late = await Rollout(all_of_them, ROW).landed()
        assert the_code(late) == (409, "stale_attempt")
        assert late.json()["error"]["retired_through"] == 0
        for name, path in [("agent", ACTIVATE), ("policy_model", ACTIVATE), ("counter", "/get_value")]:
            async with all_of_them.deployment.asking(name) as client:
                reply = await client.post(path, json={}, headers={"x-rollout-id": "r"})
            assert the_code(reply) == (409, "stale_attempt"), name
        assert (await Rollout(all_of_them, ROW, 1).landed()).status_code == 200
        nursery.cancel_scope.cancel()


async def test_a_client_that_hangs_up_while_closed_is_missed_only_after_the_opening(tmp_path):
    async with crew(tmp_path) as all_of_them, trio.open_nursery() as nursery:
        stop = all_of_them.deployment.stop("agent", ACTIVATE)
        left = trio.Event()
        app = all_of_them.deployment.apps["environment"]
        nursery.start_soon(hanging_up, app, "/run", ROW, left.wait)
        await stop.reached.wait()
        await all_of_them.prepare()
        left.set()
        await wait_all_tasks_blocked()
        _, answers = await all_of_them.commit(EpisodeId("r"))
        assert answers["environment"]["exported"] == answers["counter"]["exported"] == ["r"]
        await all_of_them.resume()
        await wait_all_tasks_blocked()
        assert set(all_of_them.kept().values()) == {0}


async def test_a_rollout_that_has_ended_leaves_nothing_with_any_server(tmp_path):
    async with crew(tmp_path) as all_of_them:
        assert (await Rollout(all_of_them, ROW).landed()).status_code == 200
        assert set(all_of_them.kept().values()) == {0}


async def test_a_session_closes_though_its_model_server_keeps_no_account_or_never_answers(
    tmp_path, autojump_clock
):
    async def never(_request):
        await trio.sleep_forever()

    for answer in (lambda _request: httpx.Response(404), never):
        async with crew(tmp_path) as all_of_them, all_of_them.deployment.asking("agent") as agent:
            all_of_them.deployment.replaced["policy_model"] = answer
            whose = {"x-rollout-id": "r"}
            await agent.post("/v1/agent_sessions", json={"agent": "counter_agent"}, headers=whose)
            reply = await agent.post("/v1/agent_sessions/close", json={}, headers=whose)
            assert reply.json() == {"closed": True}


async def test_a_checkpoint_that_is_given_up_takes_no_calls_from_what_was_not_in_it(tmp_path):
    async with crew(tmp_path) as all_of_them:
        async with all_of_them.deployment.asking("policy_model") as client:
            await client.post(ACTIVATE, json={"input": "1 + 1"})
        await all_of_them.prepare()
        await all_of_them.commit()
        await all_of_them.resume()
        await all_of_them.prepare()
        _, answers = await all_of_them.commit(EpisodeId("r"))
        assert answers["policy_model"]["exported"] == ["r"]


async def test_a_caller_that_hangs_up_has_been_delivered_nothing(tmp_path):
    async with crew(tmp_path) as all_of_them:
        all_of_them.deployment.stop("inference", "/v1/responses")
        model = all_of_them.deployment.apps["policy_model"]
        sent = await hanging_up(model, ACTIVATE, {"input": "1 + 1"}, wait_all_tasks_blocked)
        assert sent == []
        assert all_of_them.kept()["policy_model"] == 0


async def test_what_belongs_to_an_older_collector_is_refused_by_every_server_behind_the_first(tmp_path):
    async with crew(tmp_path) as all_of_them, trio.open_nursery() as nursery:
        for name, path in [("agent", ACTIVATE), ("policy_model", ACTIVATE), ("counter", "/verify")]:
            stop = all_of_them.deployment.stop(name, path)
            rollout = Rollout(all_of_them, ROW)
            nursery.start_soon(rollout.fly)
            await stop.reached.wait()
            all_of_them.epoch += 1
            await all_of_them.ok(name, "hello")
            stop.go.set()
            await rollout.done.wait()
            assert rollout.reply.status_code == 500
            assert "stale_epoch" in rollout.reply.text
        await all_of_them.ok("environment", "hello")
        late = Rollout(all_of_them, ROW)
        late.headers["x-collector-epoch"] = "1"
        assert the_code(await late.landed()) == (409, "stale_epoch")


async def test_a_rollout_that_arrives_after_its_collector_said_goodbye_is_not_run(tmp_path):
    async with crew(tmp_path) as all_of_them:
        await all_of_them.ok("environment", "hello")
        all_of_them.operation += 1
        await all_of_them.ok("environment", "forget", rollout_ids=[], goodbye=True)
        assert the_code(await Rollout(all_of_them, ROW).landed()) == (409, "stale_epoch")
        all_of_them.epoch += 1
        await all_of_them.ok("environment", "hello")
        assert (await Rollout(all_of_them, ROW).landed()).status_code == 200


async def test_a_session_that_its_environment_never_closed_is_freed_by_a_retire_or_at_the_end(tmp_path):
    async with crew(tmp_path) as all_of_them:
        whose = [{"x-rollout-id": "r"}, {"x-rollout-id": "q"}]
        async with all_of_them.deployment.asking("agent") as agent:
            for headers in whose:
                await agent.post("/v1/agent_sessions", json={"agent": "counter_agent"}, headers=headers)
        assert all_of_them.kept()["agent"] == 2
        await all_of_them.retire(EpisodeId("r"))
        assert all_of_them.kept()["agent"] == 1
        await all_of_them.forget("q")
        assert all_of_them.kept()["agent"] == 0
