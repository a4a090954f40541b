"""The server on the page for authors, a plain FastAPI application, does what the page says."""

from contextlib import asynccontextmanager

import anyio
import pytest

from tests.participant.harness import TOKEN, Caller, commit, lifespan_of, retire
from tests.participant.page import text_of_the_server, uvicorn
from triocollect.participant import EpisodeId

GAME = EpisodeId("game")
NEXT = EpisodeId("game", 1)


def named(episode):
    return {"x-rollout-id": episode.rollout_id, "x-rollout-attempt": str(episode.attempt)}


@pytest.fixture
def environ(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", TOKEN)
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path))
    return tmp_path


@asynccontextmanager
async def served(root):
    names = {"__name__": "dice"}
    exec(compile(text_of_the_server(), "dice.py", "exec"), names)  # of our own page
    async with lifespan_of(names["app"]):
        caller = Caller(names["app"], names["tables"], root)
        async with caller.client:
            yield caller


async def throw(caller, episode):
    reply = await caller.client.post("/throw", headers=named(episode))
    assert reply.status_code == 200, reply.text
    return reply.json()["output"]


async def test_a_game_goes_on_in_another_process_with_the_dice_that_would_have_come(environ):
    async with served(environ) as first:
        await first.client.post("/seed_session", headers=named(GAME))
        for _ in range(3):
            await throw(first, GAME)
        answer = await first.committed(1, GAME)
        await first.ok("resume", 1)
        went_on = [await throw(first, GAME) for _ in range(20)]
    async with served(environ) as second:
        await second.ok("restore", 1, **second.installing(1, answer, game=1))
        await second.ok("resume", 1)
        assert [await throw(second, NEXT) for _ in range(20)] == went_on


async def test_a_throw_waits_while_a_checkpoint_is_open(environ):
    async with served(environ) as caller, anyio.create_task_group() as tasks:
        await caller.client.post("/seed_session", headers=named(GAME))
        await caller.ok("prepare", 1)
        outputs = []

        async def late():
            outputs.append(await throw(caller, GAME))

        tasks.start_soon(late)
        await anyio.wait_all_tasks_blocked()
        assert not outputs
        assert len(caller.counts.find(GAME).thrown) == 0
        await caller.ok("resume", 1)
    assert len(outputs) == 1


async def test_a_session_that_is_closed_is_freed_and_closing_it_again_is_no_fault(environ):
    async with served(environ) as caller:
        await caller.client.post("/seed_session", headers=named(GAME))
        for _ in range(2):
            closed = await caller.client.post("/close_session", headers=named(GAME), content=b"{}")
            assert (closed.status_code, caller.counts.find(GAME)) == (200, None)


async def test_a_close_passes_while_a_checkpoint_is_open_and_takes_nothing_from_what_is_committed(environ):
    async with served(environ) as caller:
        for episode in (GAME, EpisodeId("other")):
            await caller.client.post("/seed_session", headers=named(episode))
        await caller.ok("prepare", 1)
        await caller.client.post("/close_session", headers=named(EpisodeId("other")))
        answer = await caller.ok("commit", 1, **commit(1, GAME, EpisodeId("other")))
        assert answer["exported"] == ["game"]
        await caller.client.post("/close_session", headers=named(GAME))
        assert await caller.ok("commit", 1, **commit(1, GAME, EpisodeId("other"))) == answer
        assert caller.counts.find(GAME) is None
    async with served(environ) as second:
        await second.client.post("/close_session", headers=named(GAME))
        assert not (await second.status())["served"], "it can still be restored into"
        await second.ok("restore", 1, **second.installing(1, answer, game=1))


async def test_work_of_nobody_is_refused_and_reading_is_not(environ):
    async with served(environ) as caller:
        reply = await caller.client.post("/throw")
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "rollout_id_required")
        reply = await caller.client.post("/throw", headers={"x-rollout-id": "no/name"})
        assert reply.status_code == 422
        await caller.ok("prepare", 1)
        assert (await caller.client.get("/openapi.json")).status_code == 200


async def test_a_retired_attempt_is_refused_and_its_table_is_gone(environ):
    async with served(environ) as caller:
        await caller.client.post("/seed_session", headers=named(GAME))
        await caller.ok("retire", 1, **retire(GAME))
        reply = await caller.client.post("/throw", headers=named(GAME))
        assert reply.json()["error"]["code"] == "stale_attempt"
        assert caller.counts.find(GAME) is None


async def test_a_restored_table_that_nobody_came_for_is_dropped_with_the_next_checkpoint(environ):
    async with served(environ) as first:
        await first.client.post("/seed_session", headers=named(GAME))
        answer = await first.committed(1, GAME)
    async with served(environ) as second:
        await second.ok("restore", 1, **second.installing(1, answer, game=1))
        await second.ok("resume", 1)
        assert (await second.status())["restored_pending"] == 1
        await second.ok("prepare", 2)
        await second.ok("commit", 2, **commit(2))
        await second.ok("resume", 2)
        assert (await second.status())["restored_pending"] == 0
        assert await throw(second, NEXT) == "no game is on"


def told(client, verb, operation, **fields):
    common = {"run": "r1", "epoch": 1, "budget_ms": 60_000, "lease_ms": 60_000, "operation": operation}
    reply = client.post(f"/checkpoint/v1/{verb}", json=common | fields)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("variable", ["TRIOCOLLECT_CONTROL_TOKEN", "CHECKPOINT_DIR"])
def test_the_server_says_what_it_needs_to_be_told(environ, monkeypatch, variable):
    monkeypatch.delenv(variable)
    with pytest.raises(SystemExit, match=f"need to be told {variable}"):
        exec(compile(text_of_the_server(), "dice.py", "exec"), {"__name__": "dice"})


@pytest.mark.processes
def test_under_uvicorn_a_killed_server_is_followed_by_one_that_goes_on(tmp_path):
    (tmp_path / "dice.py").write_text(text_of_the_server())
    root = tmp_path / "checkpoints"
    root.mkdir()

    def thrown(client, episode):
        return client.post("/throw", headers=named(episode)).json()["output"]

    with uvicorn(tmp_path, root, TOKEN) as client:
        client.post("/seed_session", headers=named(GAME)).raise_for_status()
        thrown(client, GAME)
        assert told(client, "prepare", 1)["phase"] == "prepared"
        scope = [{"rollout_id": "game", "attempt": 0}]
        cut = told(client, "commit", 1, checkpoint_id="c1", directory="ckpt-000001", scope=scope, stop=False)
        told(client, "resume", 1)
        went_on = [thrown(client, GAME) for _ in range(10)]
    with uvicorn(tmp_path, root, TOKEN) as client:
        told(
            client,
            "restore",
            1,
            checkpoint_id="c1",
            directory="ckpt-000001",
            manifest_sha256=cut["manifest"]["sha256"],
            scope=[{"rollout_id": "game", "attempt": 0, "becomes": 1}],
        )
        told(client, "resume", 1)
        assert [thrown(client, NEXT) for _ in range(10)] == went_on
