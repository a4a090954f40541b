"""Episodes through the environment, agent, model, inference and resources servers."""

import json
import random

import httpx
import msgspec
import pytest
import trio
import yaml

from tests.servers.wired import COUNTER_ROW, Deployment, an_episode, hanging_up
from triocollect.servers.environment.episode import STEPS, Episode
from triocollect.servers.environment.run_requests import RunRequest, parse_run

ROWS = {
    "exact_match": {"responses_create_params": {"input": "Repeat exactly: hi"}, "expected_answer": "hi"},
    "numeric": {"responses_create_params": {"input": "What is 3 + 4 * 5?"}, "expected_answer": 23},
    "counter": COUNTER_ROW,
}


@pytest.mark.parametrize("source", ROWS)
async def test_a_row_of_each_source_comes_back_as_gyms_flat_record(source):
    row = {
        **ROWS[source],
        "agent_ref": {"name": f"{source}_agent"},
        "_ng_task_index": 3,
        "_ng_rollout_index": 1,
    }
    async with Deployment().asking() as client:
        reply = await client.post("/run", json=row)
    record = reply.json()
    assert reply.status_code == 200
    first = "responses_create_params", "response", "reward", "mask_sample", "failure_kind", "failure_reason"
    assert tuple(record)[:6] == first
    assert record["reward"] in (0.0, 1.0)
    assert record["mask_sample"] is False
    assert record["failure_kind"] is None
    assert record["responses_create_params"] == row["responses_create_params"]
    assert not [name for name in record if name.startswith("_ng_")], "the stamps are the collector's"


async def test_the_record_tells_the_whole_conversation_and_what_it_used():
    async with Deployment().asking() as client:
        record = (await client.post("/run", json=COUNTER_ROW)).json()
    kinds = [item["type"] for item in record["response"]["output"]]
    assert kinds == ["function_call", "function_call_output"] * 3 + ["message"]
    assert record["final_value"] - record["start_value"] == 7
    usage = record["response"]["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


async def test_an_episode_request_gets_an_episode_reply():
    async with Deployment().asking() as client:
        reply = (await client.post("/run", json=an_episode(COUNTER_ROW, rollout_id="7-1", attempt=2))).json()
    assert reply["episode_id"] == {"rollout_id": "7-1", "attempt": 2}
    assert reply["task_id"] == {"taskset": "counter", "task_id": "t0"}
    assert reply["failure"] is None
    assert reply["result"]["final_value"] - reply["result"]["start_value"] == 7


async def test_every_server_of_an_episode_hears_of_it_in_order_and_only_once():
    deployment = Deployment()
    async with deployment.asking() as client:
        await client.post("/run", json={**ROWS["numeric"], "task_source": "numeric", "_ng_rollout_id": "r"})
    assert deployment.heard == [
        ("environment", "/run"),
        ("numeric", "/seed_session"),
        ("agent", "/v1/agent_sessions"),
        ("agent", "/ng-rollout/r/v1/responses"),
        ("policy_model", "/ng-rollout/r/v1/responses"),
        ("inference", "/v1/responses"),
        ("numeric", "/verify"),
        ("agent", "/v1/agent_sessions/close"),
        ("numeric", "/close_session"),
    ]


async def test_a_row_that_names_no_known_source_is_refused_with_the_known_ones():
    async with Deployment().asking() as client:
        reply = await client.post("/run", json={**COUNTER_ROW, "agent_ref": {"name": "countr_agent"}})
    assert reply.status_code == 422
    assert "'countr_agent'" in reply.json()["error"]["detail"]
    assert "blackjack, counter, exact_match, instructions" in reply.json()["error"]["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"a":' * 3000,
        b'{"_ng_rollout_id":"x-a1"}',
        b'{"_ng_rollout_id":"x","_ng_attempt_index":-1}',
        b'{"_ng_rollout_id":"x","_ng_attempt_index":1000000000}',
        b'{"episode_id":{"rollout_id":"x","attempt":-1},"task":{"task_id":{},"task_input":{}}}',
    ],
)
async def test_a_run_that_cannot_be_read_is_refused(body):
    async with Deployment().asking() as client:
        reply = await client.post("/run", content=body)
    assert reply.status_code == 422
    assert reply.json()["error"]["code"] == "bad_request"


async def test_an_attempt_that_is_under_way_is_not_run_twice():
    release = trio.Event()

    async def wait(_request):
        await release.wait()
        return httpx.Response(503)

    deployment = Deployment({"policy_model": wait})
    replies = []

    async def run(client):
        replies.append((await client.post("/run", json={**COUNTER_ROW, "_ng_rollout_id": "r"})).status_code)

    async with deployment.asking() as client, trio.open_nursery() as nursery:
        nursery.start_soon(run, client)
        await trio.testing.wait_all_tasks_blocked()
        second = await client.post("/run", json={**COUNTER_ROW, "_ng_rollout_id": "r"})
        assert second.status_code == 409
        assert second.json()["error"]["code"] == "duplicate_attempt"
        other = {**COUNTER_ROW, "_ng_rollout_id": "r", "_ng_attempt_index": 1}
        nursery.start_soon(lambda: client.post("/run", json=other))
        await trio.testing.wait_all_tasks_blocked()
        release.set()
    assert replies == [500]


@pytest.mark.usefixtures("autojump_clock")  # it is asked again for minutes
async def test_a_failing_server_is_told_as_gym_does_and_the_sessions_are_ended():
    deployment = Deployment({"inference": lambda _request: httpx.Response(429, text="slow down")})
    async with deployment.asking() as client:
        flat = await client.post("/run", json=COUNTER_ROW)
        episode = (await client.post("/run", json=an_episode(COUNTER_ROW))).json()
    assert flat.status_code == 500
    assert flat.json().endswith("inference worker answered 429 to /responses: slow down")
    assert episode["result"] is None
    assert episode["failure"]["stage"] == "agent"
    assert episode["failure"]["terminal"] is False
    assert deployment.heard[-2:] == [("agent", "/v1/agent_sessions/close"), ("counter", "/close_session")]


async def test_a_failure_that_would_come_again_is_terminal():
    deployment = Deployment({"counter": lambda _request: httpx.Response(422, json="no such field")})
    async with deployment.asking() as client:
        failure = (await client.post("/run", json=an_episode(COUNTER_ROW))).json()["failure"]
    assert failure == {
        "failure_reason": "seed: counter answered 422 to /seed_session: no such field",
        "terminal": True,
        "stage": "seed",
        "failure_kind": None,
    }


async def test_a_client_that_hangs_up_ends_its_episode_everywhere():
    async def never(_request):
        await trio.sleep_forever()

    deployment = Deployment({"inference": never})
    sent = await hanging_up(
        deployment.apps["environment"], "/run", COUNTER_ROW, trio.testing.wait_all_tasks_blocked
    )
    assert sent == []
    assert deployment.heard[-2:] == [("agent", "/v1/agent_sessions/close"), ("counter", "/close_session")]


@pytest.mark.usefixtures("autojump_clock")
async def test_a_close_that_hangs_takes_neither_the_result_nor_more_than_its_grace():
    real = Deployment()

    async def stuck_at_close(request):
        if request.url.path == "/v1/agent_sessions/close":
            await trio.sleep_forever()
        return await httpx.ASGITransport(real.apps["agent"]).handle_async_request(request)

    deployment = Deployment({"agent": stuck_at_close})
    async with deployment.asking() as client:
        reply = await client.post("/run", json=COUNTER_ROW)
    assert reply.status_code == 200
    assert trio.current_time() == 5.0


async def test_the_head_answers_with_yaml_in_a_json_string():
    async with Deployment().asking() as client:
        tree = yaml.safe_load((await client.get("/global_config_dict_yaml")).json())
    assert tree["counter_environment"]["environment_servers"]["stepped"]["host"] == "environment"


async def test_aggregate_metrics_answers_with_gyms_keys():
    records = [{"reward": 1.0, "_ng_task_index": 0, "_ng_rollout_index": 0}]
    async with Deployment().asking() as client:
        metrics = (await client.post("/aggregate_metrics", json={"verify_responses": records})).json()
    assert metrics["agent_metrics"]["mean/reward"] == 1.0


def test_an_episode_survives_being_written_down_at_any_boundary():
    body = json.dumps(an_episode({**COUNTER_ROW, "big": 2**80})).encode()
    asked = parse_run(body, ["counter"])
    for step in range(len(STEPS) + 1):
        record = {"reward": msgspec.Raw(b"1.0")}
        episode = Episode(asked=asked, step=step, response={"id": msgspec.Raw(b'"r"')}, record=record)
        written = msgspec.json.encode(episode)
        assert msgspec.json.encode(msgspec.json.decode(written, type=Episode)) == written
    again = msgspec.json.decode(msgspec.json.encode(asked), type=RunRequest)
    assert bytes(again.fields["big"]) == str(2**80).encode()


def test_a_row_without_any_identity_gets_one_of_its_own():
    body = json.dumps(COUNTER_ROW).encode()
    assert parse_run(body, ["counter"]).episode != parse_run(body, ["counter"]).episode


@pytest.mark.parametrize(
    ("named", "source"),
    [
        ({"agent_ref": {"name": "b_agent"}, "task_source": "a"}, "b"),
        ({"_ng_environment_server": "b_environment"}, "b"),
        ({"task_source": "b"}, "b"),
    ],
)
def test_a_row_goes_to_the_source_of_its_agent_first(named, source):
    sources = ["a", "b"]
    random.shuffle(sources)
    assert parse_run(json.dumps(named).encode(), sources).source == source
