"""Prepare, commit, resume."""

from functools import partial

import anyio
import pytest

from tests.participant.harness import ONE, TWO, commit, inline, participant, retire
from triocollect.protocol.ids import EpisodeId


def files(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


class Disk:
    """Runs what blocks when it is told to; `after` holds back the return instead of the work."""

    def __init__(self, *, after=False):
        self.after, self.gate, self.asked = after, anyio.Event(), 0

    async def __call__(self, work):
        self.asked += 1
        if not self.after:
            await self.gate.wait()
            return work()
        done = work()
        await self.gate.wait()
        return done


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


async def test_commits_of_one_operation_export_once_and_answer_alike(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.add(ONE)
        first = await caller.committed(1, ONE, TWO)
        assert await caller.ok("commit", 1, **commit(1, TWO, ONE), budget_ms=9) == first
        assert caller.counts.heard.count("export") == 1
        assert (await caller.ok("prepare", 1))["phase"] == "prepared"
        assert await caller.phase() == "committed"


@pytest.mark.parametrize("fields", [commit(2, ONE), commit(1, ONE, TWO), {**commit(1, ONE), "stop": True}])
async def test_a_commit_with_other_arguments_conflicts(tmp_path, fields):
    async with participant(tmp_path) as caller:
        await caller.committed(1, ONE)
        assert await caller.refused("commit", 1, **fields) == "checkpoint_conflict"
        assert await caller.phase() == "committed"


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


async def test_a_write_outlives_its_deadline_and_the_retry_gets_that_same_write(tmp_path):
    disk = Disk()
    async with participant(tmp_path, in_thread=disk) as caller:
        await caller.add(ONE)
        await caller.ok("prepare", 1)
        late = await caller.post("commit", 1, **commit(1, ONE), budget_ms=0)
        assert (late[0], late[1]["code"], late[1]["phase"]) == (409, "deadline_exceeded", "committing")
        caller.counts.counts[ONE] = 99  # what was exported is what counts
        disk.gate.set()
        again = await caller.ok("commit", 1, **commit(1, ONE))
        assert (again["exported"], disk.asked, caller.counts.heard.count("export")) == (["one"], 1, 1)
        assert b'"state":1,' in next(tmp_path.rglob("records-*")).read_bytes()


async def test_a_failed_write_is_done_again_with_the_same_records(tmp_path):
    disk = tmp_path / "disk"
    async with participant(disk) as caller:
        await caller.add(ONE)
        await caller.ok("prepare", 1)
        status, body = await caller.post("commit", 1, **commit(1, ONE))
        assert (status, body["code"], body["phase"]) == (503, "coordinator_unavailable", "committing")
        assert str(disk) in body["detail"]
        disk.mkdir()
        assert (await caller.ok("commit", 1, **commit(1, ONE)))["exported"] == ["one"]
        assert caller.counts.heard.count("export") == 1


async def test_a_state_that_cannot_be_kept_names_itself_and_is_not_exported_again(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        caller.counts.counts[ONE] = {"pair": (1, 2)}
        for _ in range(2):
            status, body = await caller.post("commit", 1, **commit(1, ONE))
            assert (status, body["code"]) == (422, "invalid_state")
            assert "one" in body["detail"]
            assert "state.pair is a tuple" in body["detail"]
        assert caller.counts.heard.count("export") == 1
        await caller.ok("resume", 1)
        assert files(tmp_path) == []


@pytest.mark.parametrize("ends", ["resume", "hello"])
async def test_a_write_that_is_repeated_after_a_failure_can_still_be_stopped(tmp_path, ends):
    disk = Disk()
    async with participant(tmp_path, in_thread=disk) as caller:
        await caller.add(ONE)
        await caller.ok("prepare", 1)
        in_the_way = tmp_path / "ckpt-000001/participants/resources/counts/manifest.json"
        in_the_way.mkdir(parents=True)
        disk.gate.set()
        status, body = await caller.post("commit", 1, **commit(1, ONE))
        assert (status, body["code"], len(files(tmp_path))) == (503, "coordinator_unavailable", 1), (
            "it had begun"
        )
        in_the_way.rmdir()
        disk.gate = anyio.Event()
        await caller.post("commit", 1, **commit(1, ONE), budget_ms=0)
        later = {"epoch": 2} if ends == "hello" else {}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(caller.ok, ends, 0 if later else 1, **later))
            await anyio.wait_all_tasks_blocked()
            disk.gate.set()
        await anyio.wait_all_tasks_blocked()
        assert not in_the_way.exists()


async def test_after_a_resume_has_answered_no_file_of_that_operation_appears(tmp_path):
    disk = Disk()
    async with participant(tmp_path, in_thread=disk) as caller:
        await caller.add(ONE)
        await caller.ok("prepare", 1)
        await caller.post("commit", 1, **commit(1, ONE), budget_ms=0)
        answered = []

        async def resume():
            answered.append(await caller.ok("resume", 1))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume)
            await anyio.wait_all_tasks_blocked()
            assert await caller.phase() == "open", "the run goes on at once"
            assert answered == [], "the write has not ended"
            disk.gate.set()
        assert files(tmp_path) == []
        assert await caller.refused("commit", 1, **commit(1, ONE)) == "stale_checkpoint"


async def test_a_resume_waits_for_a_write_that_is_publishing(tmp_path):
    disk = Disk(after=True)
    async with participant(tmp_path, in_thread=disk) as caller:
        await caller.ok("prepare", 1)
        await caller.post("commit", 1, **commit(1, ONE), budget_ms=0)
        await anyio.wait_all_tasks_blocked()
        assert await caller.refused("resume", 1, budget_ms=0) == "deadline_exceeded"
        assert await caller.phase() == "open"
        disk.gate.set()
        assert (await caller.ok("resume", 1))["phase"] == "open"
        assert len(files(tmp_path)) == 2


async def test_a_commit_whose_operation_was_ended_says_so(tmp_path):
    disk = Disk(after=True)
    async with participant(tmp_path, in_thread=disk) as caller, anyio.create_task_group() as tasks:
        await caller.ok("prepare", 1)
        codes = []

        async def write():
            codes.append(await caller.refused("commit", 1, **commit(1, ONE)))

        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(caller.ok, "resume", 1)
        await anyio.wait_all_tasks_blocked()
        disk.gate.set()
        await anyio.wait_all_tasks_blocked()
        assert codes == ["stale_checkpoint"]
        assert await caller.phase() == "open"


async def test_a_commit_that_says_stop_is_noticed_once_it_is_written(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        await caller.ok("commit", 1, **commit(1, ONE), stop=True)
        assert caller.counts.admission.attendance.needed, "the collector asks once more whether the cut held"
        await caller.status()
        assert not caller.counts.admission.attendance.needed


async def test_nothing_is_retired_or_forgotten_between_prepare_and_resume(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 2)
        for operation in (2, 3):
            assert await caller.refused("retire", operation, **retire(ONE)) == "invalid_phase"
            assert await caller.refused("forget", operation, rollout_ids=["one"]) == "invalid_phase"
        assert await caller.refused("retire", 1, **retire(ONE)) == "stale_checkpoint"
        await caller.ok("resume", 2)
        await caller.ok("retire", 3, **retire(ONE))


async def test_a_stop_under_way_is_waited_for_and_not_begun_twice(tmp_path):
    async with participant(tmp_path) as caller:
        caller.counts.stop_waits = anyio.Event()
        assert await caller.refused("retire", 1, **retire(ONE), budget_ms=0) == "deadline_exceeded"
        assert caller.counts.admission.marks.retired(ONE), "marked first"
        caller.counts.stop_waits.set()
        await caller.ok("retire", 1, **retire(ONE))
        assert caller.counts.heard.count("stop") == 1


async def test_a_stop_that_failed_is_done_again(tmp_path):
    async with participant(tmp_path) as caller:
        caller.counts.fails["stop"] = RuntimeError("stuck")
        assert await caller.refused("retire", 1, **retire(ONE)) == "coordinator_unavailable"
        caller.counts.fails.clear()
        assert (await caller.ok("retire", 1, **retire(ONE)))["retired"] == ["one"]


async def test_a_prepare_overtakes_a_retire_that_hangs(tmp_path):
    async with participant(tmp_path) as caller:
        caller.counts.stop_waits = anyio.Event()
        await caller.refused("retire", 1, **retire(ONE), budget_ms=0)
        assert (await caller.ok("prepare", 2))["phase"] == "prepared"
        assert await caller.refused("retire", 1, **retire(ONE)) == "stale_checkpoint"
        caller.counts.stop_waits.set()


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
