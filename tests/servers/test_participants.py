"""Each server as a participant: what it refuses, what it holds back, what it frees."""

import json
import math

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.servers.cutting import IN_ORDER, Rollout, calls_of_the_worker, crew, effects
from tests.servers.wired import COUNTER_ROW, Deployment, an_episode, hanging_up
from triocollect.protocol.ids import EpisodeId

ROW = {**COUNTER_ROW, "_ng_rollout_id": "r"}
CONTINUED = {"x-continued": "1"}
ACTIVATE = "/ng-rollout/r/v1/responses"


def the_code(reply):
    return reply.status_code, reply.json()["error"]["code"]


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


async def test_a_closed_environment_refuses_at_once_and_runs_nothing(tmp_path):
    async with crew(tmp_path) as all_of_them:
        await all_of_them.prepare()
        reply = await Rollout(all_of_them, ROW).landed()
        assert the_code(reply) == (409, "checkpoint_open")
        assert effects(tmp_path) == []
        await all_of_them.resume()
        assert (await Rollout(all_of_them, ROW).landed()).status_code == 200


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


async def test_what_was_restored_of_a_retired_attempt_is_gone(tmp_path):
    async with crew(tmp_path) as old:
        committed = await committed_at_the_activation(old)
    async with crew(tmp_path, epoch=2) as fresh:
        await fresh.restore(committed, r=1)
        await fresh.retire(EpisodeId("r", 1))
        assert set(fresh.kept().values()) == {0}


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


async def test_an_answer_is_held_by_the_model_server_until_the_opening(tmp_path):
    async with crew(tmp_path) as all_of_them, trio.open_nursery() as nursery:
        stop = all_of_them.deployment.stop("inference", "/v1/responses")
        replies = []

        async def ask(parent=None):
            headers = {} if parent is None else {"x-parent-call": parent}
            async with all_of_them.deployment.asking("policy_model") as client:
                replies.append(await client.post(ACTIVATE, json={"input": "1 + 1"}, headers=headers))

        nursery.start_soon(ask)
        await stop.reached.wait()
        reports = await all_of_them.prepare()
        assert reports["policy_model"]["counts"] == {"undelivered": 1}
        stop.go.set()
        nursery.start_soon(ask)  # this one waits, not admitted
        await wait_all_tasks_blocked()
        assert replies == []
        assert await calls_of_the_worker(all_of_them) == 1
        _, answers = await all_of_them.commit(EpisodeId("r"))
        assert answers["policy_model"]["exported"] == [], "nothing was delivered"
        await all_of_them.resume()
        await wait_all_tasks_blocked()
        assert [reply.status_code for reply in replies] == [200, 200]
        (one, _) = replies
        await ask(one.headers["x-call-id"])
        rows = all_of_them.hooks("policy_model").ledger.rows(EpisodeId("r"))
        assert [row.parent for row in rows] == [None, None, one.headers["x-call-id"]]
        assert rows[2].request_sha256 == rows[0].request_sha256
        assert rows[0].response_id == one.json()["id"]
        assert rows[0].output_tokens == one.json()["usage"]["output_tokens"]


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
        autojump_clock.autojump_threshold = math.inf  # a greeting looks at the disk
        async with crew(tmp_path) as all_of_them, all_of_them.deployment.asking("agent") as agent:
            autojump_clock.autojump_threshold = 0
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


async def test_the_sending_of_an_answer_has_to_end_before_a_cut(tmp_path):
    async with crew(tmp_path) as all_of_them, trio.open_nursery() as nursery:
        begun, go = trio.Event(), trio.Event()
        arrived = iter([{"type": "http.request", "body": b'{"input": "1 + 1"}'}])

        async def receive():
            if (message := next(arrived, None)) is not None:
                return message
            return await trio.sleep_forever()

        async def send(_message):
            begun.set()
            await go.wait()

        scope = {"type": "http", "method": "POST", "path": ACTIVATE, "headers": [], "query_string": b""}
        nursery.start_soon(all_of_them.deployment.apps["policy_model"], scope, receive, send)
        await begun.wait()
        nursery.start_soon(all_of_them.prepare)
        await wait_all_tasks_blocked()
        assert await all_of_them.blockers("policy_model") == [("r", "its answer is being sent")]
        go.set()


async def test_an_episode_takes_no_further_step_while_it_is_closed(tmp_path):
    async with crew(tmp_path) as all_of_them, trio.open_nursery() as nursery:
        stop = all_of_them.deployment.stop("counter", "/seed_session", "after")
        rollout = Rollout(all_of_them, ROW)
        nursery.start_soon(rollout.fly)
        await stop.reached.wait()
        nursery.start_soon(all_of_them.ok, "environment", "prepare")
        await wait_all_tasks_blocked()
        stop.go.set()
        await wait_all_tasks_blocked()
        assert ("agent", "/v1/agent_sessions") not in all_of_them.deployment.heard
        await all_of_them.ok("environment", "resume")
        await rollout.done.wait()
        assert rollout.reply.status_code == 200


async def test_of_two_tools_called_at_once_the_second_waits_behind_the_cut(tmp_path):
    calls = [
        {"type": "function_call", "call_id": str(n), "name": "increment", "arguments": '{"amount":1}'}
        for n in (1, 2)
    ]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
    outputs = iter([calls, [said]])
    worker = {"inference": lambda _request: httpx.Response(200, json={"output": next(outputs)})}
    async with crew(tmp_path, replaced=worker) as all_of_them, trio.open_nursery() as nursery:
        stop = all_of_them.deployment.stop("counter", "/increment", "after")
        rollout = Rollout(all_of_them, ROW)
        nursery.start_soon(rollout.fly)
        await stop.reached.wait()
        nursery.start_soon(all_of_them.ok, "agent", "prepare")
        await wait_all_tasks_blocked()
        stop.go.set()
        await wait_all_tasks_blocked()
        assert [line["effect"] for line in effects(tmp_path)] == ["seed", "increment"]
        await all_of_them.ok("agent", "resume")
        await rollout.done.wait()
        assert [line["effect"] for line in effects(tmp_path)] == ["seed", "increment", "increment"]


async def test_a_resources_server_lets_nothing_in_while_closed_but_a_close(tmp_path):
    async with crew(tmp_path) as all_of_them, trio.open_nursery() as nursery:
        whose = {"x-rollout-id": "r"}
        replies = {}

        async def ask(path):
            async with all_of_them.deployment.asking("counter") as client:
                replies[path] = (await client.post(path, json={}, headers=whose)).status_code

        await ask("/seed_session")
        await all_of_them.ok("counter", "prepare")
        for path in ("/get_value", "/verify"):
            nursery.start_soon(ask, path)
        await wait_all_tasks_blocked()
        assert list(replies) == ["/seed_session"]
        await ask("/close_session")
        assert replies["/close_session"] == 200
        await all_of_them.ok("counter", "resume")
        await wait_all_tasks_blocked()
        assert len(replies) == 4


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


@pytest.mark.parametrize("name", ["environment", "policy_model", "agent", "counter"])
async def test_work_that_does_not_say_whose_it_is_is_refused_where_checkpoints_are_taken(name, tmp_path):
    path = {"environment": "/run", "policy_model": "/v1/responses", "agent": "/v1/agent_sessions"}
    body = {**COUNTER_ROW, "agent": "counter_agent"}
    async with crew(tmp_path) as all_of_them, all_of_them.deployment.asking(name) as client:
        reply = await client.post(path.get(name, "/seed_session"), json=body)
        assert the_code(reply) == (400, "rollout_id_required")


@pytest.mark.parametrize("name", IN_ORDER)
async def test_a_participant_says_what_it_is(name, tmp_path):
    async with crew(tmp_path) as all_of_them, all_of_them.deployment.asking(name) as client:
        headers = {"authorization": "Bearer s3cret"}
        said = (await client.get("/checkpoint/v1/capabilities", headers=headers)).json()
        unknown = await client.get("/checkpoint/v1/capabilities")
    kinds = {"environment": "environment", "agent": "agent", "policy_model": "model"}
    verifiers = {"exact_match", "multiple_choice", "numeric", "instructions", "json_schema"}
    mode = "stateless" if name in verifiers else "exported"
    assert (said["kind"], said["instance"], said["mode"]) == (kinds.get(name, "resources"), name, mode)
    assert unknown.status_code == 401


@pytest.mark.parametrize("name", IN_ORDER)
async def test_without_a_token_there_is_no_control_plane(name):
    async with Deployment().asking(name) as client:
        assert (await client.get("/checkpoint/v1/status")).status_code in {404, 405}


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


@pytest.mark.parametrize(("path", "closed"), [("/seed_session", "environment"), ("/increment", "agent")])
async def test_what_breaks_while_closed_is_told_only_after_the_opening(path, closed, tmp_path):
    asked, go = trio.Event(), trio.Event()
    real = Deployment()

    async def breaks(request):
        if request.url.path != path:
            return await httpx.ASGITransport(real.apps["counter"]).handle_async_request(request)
        asked.set()
        await go.wait()
        return httpx.Response(500, json="on fire")

    async with crew(tmp_path) as all_of_them, trio.open_nursery() as nursery:
        all_of_them.deployment.replaced["counter"] = breaks
        rollout = Rollout(all_of_them, ROW)
        nursery.start_soon(rollout.fly)
        await asked.wait()
        nursery.start_soon(all_of_them.ok, closed, "prepare")
        await wait_all_tasks_blocked()
        go.set()
        await wait_all_tasks_blocked()
        async with all_of_them.deployment.asking(closed) as client:
            status = await client.get("/checkpoint/v1/status", headers={"authorization": "Bearer s3cret"})
        assert status.json()["phase"] == "prepared", "what is broken keeps nobody waiting"
        assert not rollout.done.is_set()
        assert all_of_them.kept()["environment"] == 1
        await all_of_them.ok(closed, "resume")
        await rollout.done.wait()
        assert rollout.reply.json().endswith("on fire")
