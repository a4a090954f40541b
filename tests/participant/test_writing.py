"""The write of a commit: it outlives its call, is repeated, and is over once a resume has answered."""

from functools import partial

import anyio
import pytest

from tests.participant.harness import ONE, TWO, commit, participant


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
