"""Each server as a participant: what it refuses, what it holds back, what it frees."""

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.servers.cutting import (
    ACTIVATE,
    IN_ORDER,
    ROW,
    Rollout,
    calls_of_the_worker,
    crew,
    effects,
    the_code,
)
from tests.servers.wired import COUNTER_ROW, Deployment
from triocollect.protocol.ids import EpisodeId


async def test_a_closed_environment_refuses_at_once_and_runs_nothing(tmp_path):
    async with crew(tmp_path) as all_of_them:
        await all_of_them.prepare()
        reply = await Rollout(all_of_them, ROW).landed()
        assert the_code(reply) == (409, "checkpoint_open")
        assert effects(tmp_path) == []
        await all_of_them.resume()
        assert (await Rollout(all_of_them, ROW).landed()).status_code == 200


async def test_an_answer_is_held_by_the_model_server_until_the_opening(tmp_path):
    async with crew(tmp_path) as all_of_them:
        stop = all_of_them.deployment.stop("inference", "/v1/responses")
        replies = []

        async def ask(parent=None):
            headers = {} if parent is None else {"x-parent-call": parent}
            async with all_of_them.deployment.asking("policy_model") as client:
                replies.append(await client.post(ACTIVATE, json={"input": "1 + 1"}, headers=headers))

        async with trio.open_nursery() as asking:
            asking.start_soon(ask)
            await stop.reached.wait()
            reports = await all_of_them.prepare()
            counts = {"undelivered": 1, "cut": 0, "held": 0, "not_cut": 1, "kept_tokens": 0}
            assert reports["policy_model"]["counts"] == counts
            stop.go.set()
            asking.start_soon(ask)  # this one waits, not admitted
            await wait_all_tasks_blocked()
            assert replies == []
            assert await calls_of_the_worker(all_of_them) == 1
            _, answers = await all_of_them.commit(EpisodeId("r"))
            assert answers["policy_model"]["exported"] == [], "nothing was delivered"
            await all_of_them.resume()
        assert [reply.status_code for reply in replies] == [200, 200]
        (one, _) = replies
        await ask(one.headers["x-call-id"])
        rows = all_of_them.hooks("policy_model").ledger.rows(EpisodeId("r"))
        assert [row.parent for row in rows] == [None, None, one.headers["x-call-id"]]
        assert rows[2].request_sha256 == rows[0].request_sha256
        assert rows[0].response_id == one.json()["id"]
        assert rows[0].output_tokens == one.json()["usage"]["output_tokens"]


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
    assert said["can_cut"] == (name == "policy_model")
    assert unknown.status_code == 401


@pytest.mark.parametrize("name", IN_ORDER)
async def test_without_a_token_there_is_no_control_plane(name):
    async with Deployment().asking(name) as client:
        assert (await client.get("/checkpoint/v1/status")).status_code in {404, 405}


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


async def test_a_call_of_a_retired_attempt_is_refused_by_the_next_process_too_and_forgotten_by_none(tmp_path):
    """Its marks are gone with the process; the fence of the ledger is on disk."""
    old, new = EpisodeId("r"), EpisodeId("r", 1)
    async with crew(tmp_path) as all_of_them:
        await all_of_them.retire(old)
    async with crew(tmp_path, epoch=2) as fresh:
        assert await called(fresh, old) == (410, "retired")
        assert not fresh.hooks("policy_model").served(), "so it can still be restored into"
        assert await called(fresh, new) == (200, None)
        await fresh.forget("r")
        assert await called(fresh, old) == (200, None)


async def called(of_them, episode):
    async with of_them.deployment.asking("policy_model") as client:
        reply = await client.post(f"/ng-rollout/{episode.capture_key}/v1/responses", json={"input": "1 + 1"})
    return the_code(reply) if reply.status_code != 200 else (200, None)


async def test_an_answer_goes_out_when_its_row_is_on_disk(tmp_path):
    async with crew(tmp_path) as all_of_them:
        assert await called(all_of_them, EpisodeId("r")) == (200, None)
        (ledger,) = (tmp_path / "checkpoints" / "capture" / "policy_model").iterdir()
        assert b'"call_id"' in ledger.read_bytes()


async def test_the_end_of_an_episode_that_comes_in_a_checkpoint_waits_for_its_end(tmp_path):
    """The checkpoint may hold a boundary before it, from which the calls go on."""
    episode = EpisodeId("r")
    async with crew(tmp_path) as all_of_them:
        await called(all_of_them, episode)
        await all_of_them.prepare()
        async with all_of_them.deployment.asking("policy_model") as client:
            assert (await client.post("/ng-rollout/r/close")).status_code == 200
        _, answers = await all_of_them.commit(episode)
        assert answers["policy_model"]["exported"] == ["r"]
        await all_of_them.resume()
        assert len(all_of_them.hooks("policy_model").ledger) == 0
