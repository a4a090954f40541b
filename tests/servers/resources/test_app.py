"""A resources server as its callers see it, in process."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from triocollect.deployment import datasets
from triocollect.deployment.plan import SOURCES
from triocollect.errors import ConfigError, DeploymentError
from triocollect.servers.resources.app import ResourcesSettings, build_app

EPISODE = {"x-rollout-id": "7-0", "x-rollout-attempt": "0"}


@asynccontextmanager
async def server(source: str, effects_file: Path | None = None) -> AsyncIterator[httpx.AsyncClient]:
    settings = ResourcesSettings(source, source, None if effects_file is None else str(effects_file))
    transport = httpx.ASGITransport(build_app(settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://resources") as client:
        yield client


def effects(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def claim(text: str, **row: object) -> dict:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return {"responses_create_params": {"input": "?"}, "response": {"id": "r", "output": [said]}, **row}


def without_cookies(client: httpx.AsyncClient) -> httpx.AsyncClient:
    client.cookies.clear()
    return client


async def test_a_verify_reply_is_the_request_with_the_verdict_added() -> None:
    async with server("numeric") as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        asked = claim(r"\boxed{42}", expected_answer=42, _ng_task_index=7)
        reply = await client.post("/verify", json=asked, headers=EPISODE)
    assert reply.json() == asked | {
        "reward": 1.0,
        "mask_sample": False,
        "failure_kind": None,
        "failure_reason": None,
        "extracted_answer": "42",
    }


async def test_a_verdict_replaces_a_reward_that_the_row_brings_along() -> None:
    async with server("exact_match") as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        asked = claim("red", expected_answer="blue", reward=1.0)
        reply = await client.post("/verify", json=asked, headers=EPISODE)
    assert reply.json()["reward"] == 0.0


async def test_an_episode_is_played_by_its_headers_alone(tmp_path: Path) -> None:
    file = tmp_path / "effects.jsonl"
    async with server("counter", file) as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        start = (await without_cookies(client).post("/get_value", headers=EPISODE)).json()["output"]
        reply = await without_cookies(client).post("/increment", json={"amount": 5}, headers=EPISODE)
        assert reply.json() == {"output": start + 5}
        asked = claim(f"The value is {start + 5}.", expected_change=5)
        verdict = (await without_cookies(client).post("/verify", json=asked, headers=EPISODE)).json()
    assert (verdict["reward"], verdict["start_value"], verdict["final_value"]) == (1.0, start, start + 5)


async def test_a_gym_agent_is_known_by_its_row_when_it_seeds_and_by_its_cookie_after(tmp_path: Path) -> None:
    file = tmp_path / "effects.jsonl"
    async with server("counter", file) as client:
        row = {"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_attempt_index": 2}
        seeded = await client.post("/seed_session", json=row)
        assert seeded.headers["set-cookie"].startswith("Resources___counter=")
        assert "Max-Age=1209600" in seeded.headers["set-cookie"]
        assert (await client.post("/increment", json={"amount": 1})).status_code == 200
        assert (await without_cookies(client).post("/increment", json={"amount": 1})).status_code == 400
    assert [(line["rollout_id"], line["attempt"]) for line in effects(file)] == [("3-1", 2)] * 2


async def test_two_attempts_of_a_rollout_and_two_rollouts_have_sessions_of_their_own() -> None:
    async with server("counter") as client:
        names = [EPISODE, EPISODE | {"x-rollout-attempt": "1"}, EPISODE | {"x-rollout-id": "8-0"}]
        for name in names:
            await client.post("/seed_session", json={}, headers=name)
        values = [(await client.post("/get_value", headers=name)).json()["output"] for name in names]
        await client.post("/increment", json={"amount": 1}, headers=names[1])
        after = [(await client.post("/get_value", headers=name)).json()["output"] for name in names]
    assert after == [values[0], values[1] + 1, values[2]]


async def test_every_seed_and_change_is_on_record_and_readings_and_refusals_are_not(tmp_path: Path) -> None:
    file = tmp_path / "effects.jsonl"
    async with server("counter", file) as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        await client.post("/increment", json={"amount": 5}, headers=EPISODE)
        await client.post("/get_value", headers=EPISODE)
        await client.post("/increment", json={"amount": -5}, headers=EPISODE)
        await client.post("/decrement", json={"amount": 2}, headers=EPISODE)
        await client.post("/verify", json=claim("?"), headers=EPISODE)
    seeded, added, taken = effects(file)
    seed, start = seeded["state"]["seed"], seeded["state"]["value"]
    name = {"rollout_id": "7-0", "attempt": 0}
    assert seeded == name | {
        "effect": "seed",
        "arguments": {},
        "state": {"seed": seed, "value": start, "effects": 0},
    }
    assert added == name | {
        "effect": "increment",
        "arguments": {"amount": 5},
        "state": {"seed": seed, "value": start + 5, "effects": 1},
    }
    assert taken["state"] == {"seed": seed, "value": start + 3, "effects": 2}


@pytest.mark.parametrize("source", SOURCES)
async def test_every_environment_tells_its_seed_and_how_often_it_changed_and_no_verifier_does(
    source: str, tmp_path: Path
) -> None:
    names = {"numeric": "arithmetic", "exact_match": "echo"}
    row = json.loads(datasets.path(names.get(source, source)).read_bytes().splitlines()[0])
    file = tmp_path / "effects.jsonl"
    async with server(source, file) as client:
        await client.post("/seed_session", json=row, headers=EPISODE)
        verdict = await client.post("/verify", json=row | claim("?"), headers=EPISODE)
    if source in ("counter", "blackjack", "sql"):
        [seeded] = effects(file)
        assert seeded["state"]["seed"] > 0
        assert seeded["state"]["effects"] == verdict.json()["effects"] == 0
    else:
        assert effects(file) == []
        assert "effects" not in verdict.json()


async def test_what_is_wrong_with_a_row_s_setup_is_told_when_it_seeds() -> None:
    async with server("sql") as client:
        reply = await client.post("/seed_session", json={"setup_sql": "CREATE TABEL"}, headers=EPISODE)
    assert reply.status_code == 422
    assert "`setup_sql`" in reply.json()["error"]["detail"]


async def test_wrong_sql_is_read_by_the_model_and_is_no_effect(tmp_path: Path) -> None:
    file = tmp_path / "effects.jsonl"
    async with server("sql", file) as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        reply = await client.post("/query", json={"sql": "DROP TABLE t"}, headers=EPISODE)
        inf = await client.post("/query", json={"sql": "SELECT 9e999"}, headers=EPISODE)
    assert (reply.status_code, reply.json()) == (200, {"output": {"error": "no such table: t"}})
    assert inf.json()["output"]["rows"] == [[None]]
    assert len(effects(file)) == 1


async def test_a_second_server_goes_on_in_the_same_effects_file(tmp_path: Path) -> None:
    file = tmp_path / "effects.jsonl"
    for _ in range(2):
        async with server("counter", file) as client:
            await client.post("/seed_session", json={}, headers=EPISODE)
    assert [line["effect"] for line in effects(file)] == ["seed", "seed"]


async def test_a_change_that_cannot_be_recorded_has_not_happened(tmp_path: Path) -> None:
    file = tmp_path / "effects.jsonl"
    async with server("counter", file) as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        before = (await client.post("/get_value", headers=EPISODE)).json()
        file.unlink()
        file.mkdir()
        reply = await client.post("/increment", json={"amount": 5}, headers=EPISODE)
        assert (reply.status_code, reply.json()) == (500, "effects file: Is a directory")
        assert (await client.post("/get_value", headers=EPISODE)).json() == before


async def test_seeding_an_episode_again_begins_it_anew() -> None:
    async with server("counter") as client:
        cookies = []
        for _ in range(2):
            await client.post("/seed_session", json={}, headers=EPISODE)
            cookies.append(client.cookies["Resources___counter"])
        without_cookies(client)
        old, new = [
            (await client.post("/get_value", headers={"cookie": f"Resources___counter={cookie}"})).status_code
            for cookie in cookies
        ]
    assert (old, new) == (400, 200)


@pytest.mark.parametrize("path", ["/get_value", "/verify"])
async def test_work_without_a_session_is_refused(path: str) -> None:
    async with server("counter") as client:
        for headers in ({}, EPISODE):
            reply = await client.post(path, json={}, headers=headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, "rollout_id_required")


async def test_a_seed_that_nobody_owns_is_refused() -> None:
    async with server("counter") as client:
        reply = await client.post("/seed_session", json={"_ng_task_index": 3})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "rollout_id_required")


@pytest.mark.parametrize(
    ("headers", "row"),
    [
        ({"x-rollout-id": "a/b"}, {}),
        ({"x-rollout-id": "a", "x-rollout-attempt": "-1"}, {}),
        ({}, {"_ng_rollout_id": "a-a1"}),
        ({}, {"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_attempt_index": -1}),
        ({}, {"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_attempt_index": 10**9}),
    ],
)
async def test_a_name_that_no_episode_can_have_is_refused(headers: dict, row: dict) -> None:
    async with server("counter") as client:
        reply = await client.post("/seed_session", json=row, headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "bad_request")


async def test_a_closed_session_is_gone_and_closing_again_is_no_fault() -> None:
    async with server("counter") as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        for _ in range(2):
            assert (await client.post("/close_session", headers=EPISODE)).status_code == 200
        assert (await client.post("/get_value", headers=EPISODE)).status_code == 400


async def test_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    async with server("counter") as client:
        reply = await client.post("/double", json={}, headers=EPISODE)
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "unknown_tool"
    assert "decrement, get_value, increment" in reply.json()["error"]["detail"]


@pytest.mark.parametrize("body", [b'{"amount": "three"}', b"[" * 100_000, b'{"amount": 1'])
async def test_bad_arguments_are_told_to_the_model_and_change_nothing(body: bytes) -> None:
    async with server("counter") as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        before = (await client.post("/get_value", headers=EPISODE)).json()
        reply = await client.post("/increment", content=body, headers=EPISODE)
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "bad_request")
        assert reply.json()["error"]["detail"]
        assert (await client.post("/get_value", headers=EPISODE)).json() == before


async def test_a_row_without_what_the_verifier_needs_is_refused_by_field() -> None:
    async with server("numeric") as client:
        await client.post("/seed_session", json={}, headers=EPISODE)
        reply = await client.post("/verify", json=claim("1"), headers=EPISODE)
    assert reply.status_code == 422
    assert "expected_answer" in reply.json()["error"]["detail"]


def test_a_source_that_does_not_exist_is_named_beside_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"'count'; there are exact_match, .*, json_schema, counter"):
        build_app(ResourcesSettings("c", "count"))


def test_an_effects_file_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="No such file"):
        build_app(ResourcesSettings("c", "counter", str(tmp_path / "missing" / "effects.jsonl")))
