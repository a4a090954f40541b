"""Prepare, commit, resume."""

import anyio
import pytest

from tests.participant.harness import ONE, TWO, commit, inline, participant
from triocollect.protocol.ids import EpisodeId


async def blocked_add(caller, tasks, episode=ONE):
    """An addition that goes on until `slow` is set."""
    caller.counts.slow = anyio.Event()
    tasks.start_soon(caller.add, episode)
    await anyio.wait_all_tasks_blocked()


async def test_prepare_answers_as_soon_as_the_last_work_is_at_a_boundary(tmp_path):
    async with participant(tmp_path) as caller, anyio.create_task_group() as tasks:
        await blocked_add(caller, tasks)
        phases = []

        async def prepare():
            phases.append((await caller.ok("prepare", 1))["phase"])

        tasks.start_soon(prepare)
        await anyio.wait_all_tasks_blocked()
        assert (await caller.phase(), phases) == ("preparing", [])
        caller.counts.slow.set()
        await anyio.wait_all_tasks_blocked()
        assert (await caller.phase(), phases) == ("prepared", ["prepared"])
        assert caller.counts.heard.count("close") == 1


async def test_a_prepare_whose_budget_ends_names_who_blocks_and_stays_closed(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller, anyio.create_task_group() as tasks:
        await blocked_add(caller, tasks)
        start = anyio.current_time()
        told = await caller.ok("prepare", 1, budget_ms=10_000)
        assert 9 < anyio.current_time() - start < 10, "in time, while the caller still listens"
        assert told["phase"] == "preparing"
        assert told["report"]["blocker_count"] == 1
        assert await caller.refused("commit", 1, **commit(1, ONE)) == "not_ready"
        assert caller.counts.admission.closed
        caller.counts.slow.set()
        assert (await caller.ok("prepare", 1))["phase"] == "prepared"
        assert caller.counts.heard.count("close") == 1


async def test_of_many_blockers_a_server_names_the_first_and_counts_all(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        admission = caller.counts.admission
        admission.works.update(admission.enter(EpisodeId(f"r{n:03}"), "thinking") for n in range(150))
        for told in (await caller.ok("prepare", 1, budget_ms=10), await caller.status()):
            report = told["report"]
            assert (len(report["blockers"]), report["blocker_count"]) == (100, 150)
            assert report["blockers"][0]["key"] == "r000"


async def test_two_prepares_of_one_operation_get_the_same_answer(tmp_path):
    async with participant(tmp_path) as caller, anyio.create_task_group() as tasks:
        await blocked_add(caller, tasks)
        answers = []

        async def prepare():
            answers.append(await caller.ok("prepare", 1))

        tasks.start_soon(prepare)
        tasks.start_soon(prepare)
        await anyio.wait_all_tasks_blocked()
        caller.counts.slow.set()
        await anyio.wait_all_tasks_blocked()
        assert [answer["phase"] for answer in answers] == ["prepared", "prepared"]


@pytest.mark.parametrize("hook", ["close", "report"])
async def test_a_prepare_that_raises_reopens_and_can_be_asked_again(tmp_path, hook):
    async with participant(tmp_path) as caller:
        caller.counts.fails[hook] = RuntimeError("broken")
        assert await caller.refused("prepare", 1) == "coordinator_unavailable"
        caller.counts.fails.clear()
        assert await caller.phase() == "open"
        assert caller.counts.heard[-1] == "open"
        assert await caller.add(ONE) == 1
        assert (await caller.ok("prepare", 1))["phase"] == "prepared"


async def test_a_resume_ends_a_prepare_that_waits(tmp_path):
    async with participant(tmp_path) as caller, anyio.create_task_group() as tasks:
        await blocked_add(caller, tasks)
        codes = []

        async def prepare():
            codes.append(await caller.refused("prepare", 1))

        tasks.start_soon(prepare)
        await anyio.wait_all_tasks_blocked()
        assert (await caller.ok("resume", 1))["phase"] == "open"
        await anyio.wait_all_tasks_blocked()
        assert codes == ["stale_checkpoint"]
        caller.counts.slow.set()


async def test_requests_wait_while_closed_and_go_on_at_the_opening(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        got = []

        async def add():
            got.append(await caller.add(ONE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            await anyio.wait_all_tasks_blocked()
            assert got == []
            await caller.ok("resume", 1)
        assert got == [1]


async def test_one_that_is_woken_waits_again_when_a_new_checkpoint_has_closed(tmp_path):
    async with participant(tmp_path) as caller, anyio.create_task_group() as tasks:
        await caller.ok("prepare", 1)
        tasks.start_soon(caller.add, ONE)
        await anyio.wait_all_tasks_blocked()
        admission = caller.counts.admission
        admission.open()
        admission.close()
        await anyio.wait_all_tasks_blocked()
        assert caller.counts.counts == {}
        await caller.ok("resume", 1)


async def test_a_commit_asks_once_more_whether_everything_is_ready(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        with caller.counts.admission.enter(ONE, "a worker was lost"):
            status, body = await caller.post("commit", 1, **commit(1, ONE))
            assert (status, body["code"], body["phase"]) == (409, "not_ready", "preparing")
            assert "one" in body["detail"]
        assert (await caller.ok("prepare", 1))["phase"] == "prepared"
        await caller.ok("commit", 1, **commit(1, ONE))


async def test_what_cannot_be_captured_is_told_never_blocks_and_is_in_no_scope(tmp_path):
    async with participant(tmp_path) as caller, anyio.create_task_group() as tasks:
        caller.counts.restarts = [ONE]
        await blocked_add(caller, tasks)
        report = (await caller.ok("prepare", 1))["report"]
        assert (report["restarts"], report["blocker_count"]) == (["one"], 0)
        assert await caller.refused("commit", 1, **commit(1, ONE)) == "restart_in_scope"
        assert (await caller.ok("commit", 1, **commit(1, TWO)))["exported"] == []
        caller.counts.slow.set()


async def test_a_prepare_that_waits_is_answered_when_its_repeat_finds_everything_ready(tmp_path):
    async with participant(tmp_path) as caller, anyio.create_task_group() as tasks:
        await blocked_add(caller, tasks)
        phases = []

        async def prepare():
            phases.append((await caller.ok("prepare", 1))["phase"])

        tasks.start_soon(prepare)
        await anyio.wait_all_tasks_blocked()
        caller.counts.restarts = [ONE]  # nothing settles: it just does not count any more
        await prepare()
        await anyio.wait_all_tasks_blocked()
        assert phases == ["prepared", "prepared"]
        caller.counts.slow.set()
