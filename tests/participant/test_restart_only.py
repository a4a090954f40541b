"""A server whose author wrote no hooks: nothing of it can be captured, and it says so."""

from contextlib import asynccontextmanager

import anyio
import pytest

from tests.participant.counts import serve_lifespan
from tests.participant.harness import ONE, TOKEN, TWO, Caller, commit, lifespan_of, participant, retire
from triocollect.participant import Admission, ControlPlane, EpisodeId, Participant, Record, Refusal


class Plain(Participant[Record]):
    """Answers 0, and keeps who knows what."""

    def __init__(self, admission):
        super().__init__("resources", "plain", admission, Record)
        self.slow = anyio.Event()
        self.slow.set()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await serve_lifespan(receive, send)
            return
        _, rollout_id, attempt, _ = scope["path"].split("/")
        work = await self.admission.admit(EpisodeId(rollout_id, int(attempt)), "at work")
        assert not isinstance(work, Refusal)
        with work:
            await self.slow.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"0"})


@asynccontextmanager
async def a_plain_server(root):
    admission = Admission()
    plain = Plain(admission)
    plane = ControlPlane(plain, plain, admission, token=TOKEN, root=root)
    async with lifespan_of(plane):
        caller = Caller(plane, plain, root)
        async with caller.client:
            yield caller


async def restarts(caller, operation):
    report = (await caller.ok("prepare", operation))["report"]
    assert report["blocker_count"] == 0
    return report["restarts"]


async def test_a_server_that_opts_into_nothing_is_never_taken_for_one_without_state(tmp_path):
    async with a_plain_server(tmp_path) as caller:
        said = (await caller.client.get("/checkpoint/v1/capabilities")).json()
        assert said["mode"] == "restart_only"


async def test_whoever_was_served_is_a_restart_from_then_on(tmp_path):
    async with a_plain_server(tmp_path) as caller, anyio.create_task_group() as tasks:
        await caller.add(ONE)
        caller.counts.slow = anyio.Event()
        tasks.start_soon(caller.add, TWO)
        await anyio.wait_all_tasks_blocked()
        assert await restarts(caller, 1) == ["one", "two"]
        assert await caller.refused("commit", 1, **commit(1, ONE)) == "restart_in_scope"
        assert (await caller.ok("commit", 1, **commit(1)))["exported"] == []
        caller.counts.slow.set()
        await caller.ok("resume", 1)


@pytest.mark.parametrize(
    ("verb", "fields"),
    [("retire", retire(ONE)), ("forget", {"rollout_ids": ["one"]}), ("hello", {"run": "r2", "epoch": 2})],
)
async def test_what_was_freed_is_no_restart_any_more(tmp_path, verb, fields):
    async with a_plain_server(tmp_path) as caller:
        await caller.ok("hello", 0)
        await caller.add(ONE)
        await caller.ok(verb, 1, **fields)
        common = {"run": "r2", "epoch": 2} if verb == "hello" else {}
        assert (await caller.ok("prepare", 2, **common))["report"]["restarts"] == []


async def test_an_episode_that_the_server_itself_has_freed_is_no_restart(tmp_path):
    async with a_plain_server(tmp_path) as caller:
        await caller.add(ONE)
        await caller.add(TWO)
        caller.counts.freed(ONE)
        assert await restarts(caller, 1) == ["two"]


async def test_a_server_that_exports_reports_no_restart_for_having_served(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.add(ONE)
        assert await restarts(caller, 1) == []
        assert Participant.report(caller.counts).restarts == ()
