"""Who is obeyed, and what is late, repeated or out of turn: on the wire of a whole participant."""

import anyio
import pytest

from tests.participant.harness import ONE, TWO, commit, participant, retire
from triocollect.protocol.identity import Sender


async def test_a_resume_of_an_operation_never_heard_of_succeeds_and_keeps_it_from_acting(tmp_path):
    async with participant(tmp_path) as caller:
        assert (await caller.ok("resume", 2))["phase"] == "open"
        for verb, fields in (("prepare", {}), ("commit", commit(2)), ("retire", retire(ONE))):
            assert await caller.refused(verb, 2, **fields) == "stale_checkpoint"
        assert (await caller.ok("prepare", 3))["phase"] == "prepared"


async def test_a_late_resume_of_an_ended_operation_does_not_open_a_newer_one(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        await caller.ok("resume", 1)
        await caller.ok("prepare", 2)
        assert (await caller.ok("resume", 1))["phase"] == "prepared"
        assert await caller.phase() == "prepared"


async def test_a_resume_of_a_newer_operation_ends_the_one_that_is_open(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        assert (await caller.ok("resume", 2))["phase"] == "open"
        assert await caller.refused("prepare", 2) == "stale_checkpoint"


async def test_a_newer_prepare_ends_an_older_operation_whose_resume_was_lost(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.committed(1, ONE)
        assert (await caller.ok("prepare", 2))["phase"] == "prepared"
        assert caller.counts.heard.count("open") == 1
        assert await caller.refused("commit", 1, **commit(1, ONE)) == "stale_checkpoint"
        await caller.ok("commit", 2, **commit(2, ONE))


async def test_a_commit_that_nothing_prepared_is_out_of_turn(tmp_path):
    async with participant(tmp_path) as caller:
        assert await caller.refused("commit", 1, **commit(1)) == "invalid_phase"
        await caller.ok("prepare", 1)
        assert await caller.refused("commit", 2, **commit(2)) == "invalid_phase"
        assert await caller.phase() == "prepared"


@pytest.mark.parametrize("verb", ["hello", "prepare", "resume", "retire"])
async def test_the_first_call_of_a_higher_epoch_ends_what_a_dead_collector_left_open(tmp_path, verb):
    async with participant(tmp_path) as caller:
        await caller.committed(7, ONE)
        operation = 0 if verb == "hello" else 1
        await caller.ok(verb, operation, epoch=2, **(retire(TWO) if verb == "retire" else {}))
        assert await caller.phase() == ("prepared" if verb == "prepare" else "open")
        assert caller.counts.heard.count("open") == 1
        for late in ("prepare", "resume", "hello"):
            assert await caller.refused(late, 8) == "stale_epoch"
        assert (await caller.status())["epoch"] == 2


async def test_a_call_that_is_out_of_turn_still_begins_its_epoch(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        assert await caller.refused("commit", 1, epoch=2, **commit(1)) == "invalid_phase"
        assert await caller.phase() == "open"


async def test_a_repeated_hello_of_the_same_epoch_ends_nothing(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("hello", 0)
        await caller.ok("prepare", 1)
        assert (await caller.ok("hello", 0))["phase"] == "prepared"


async def test_another_directorys_run_is_refused_while_work_is_under_way(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("hello", 0)
        with caller.counts.admission.enter(ONE, "at work"):
            status, body = await caller.post("hello", 0, run="r2", epoch=2)
            assert (status, body["code"]) == (409, "other_run")
            assert (await caller.status())["epoch"] == 1


async def test_another_directorys_run_finds_a_clean_server_when_nothing_is_live(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.add(ONE)
        await caller.ok("retire", 1, **retire(TWO))
        assert await caller.refused("hello", 0, run="r2", epoch=1) == "other_run"
        await caller.ok("hello", 0, run="r2", epoch=2)
        assert caller.counts.counts == {}
        assert await caller.add(TWO) == 1


async def test_what_an_earlier_run_left_is_cleared_again_when_that_failed(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.add(ONE)
        await caller.ok("hello", 0)
        caller.counts.fails["clear"] = RuntimeError("stuck")
        for _ in range(2):
            assert await caller.refused("hello", 0, run="r2", epoch=2) == "coordinator_unavailable"
        assert await caller.refused("prepare", 1, run="r2", epoch=3) == "coordinator_unavailable"
        caller.counts.fails.clear()
        await caller.ok("hello", 0, run="r2", epoch=3)
        assert caller.counts.counts == {}
        await caller.ok("hello", 0, run="r2", epoch=4)
        assert caller.counts.heard.count("clear") == 4


async def test_nothing_is_answered_before_what_an_earlier_run_left_is_cleared(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.add(ONE)
        await caller.ok("hello", 0)
        caller.counts.clear_waits = anyio.Event()
        late = await caller.refused("hello", 0, run="r2", epoch=2, budget_ms=0)
        assert late == "deadline_exceeded"
        answers = []

        async def call(verb, epoch):
            answers.append((await caller.post(verb, 0, run="r2", epoch=epoch))[1].get("code", "done"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "hello", 2)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(call, "hello", 3)
            await anyio.wait_all_tasks_blocked()
            assert answers == []
            caller.counts.clear_waits.set()
        assert sorted(answers) == ["done", "stale_epoch"]
        assert (caller.counts.counts, caller.counts.heard.count("clear")) == ({}, 1)


async def test_a_goodbye_that_is_not_done_in_time_is_done_all_the_same(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("hello", 0)
        caller.counts.clear_waits = anyio.Event()
        late = await caller.refused("forget", 1, rollout_ids=[], goodbye=True, budget_ms=50)
        assert late == "deadline_exceeded"
        caller.counts.clear_waits.set()
        await caller.ok("hello", 0, epoch=2)
        assert caller.counts.heard.count("clear") == 1


async def test_data_requests_of_an_older_epoch_are_refused(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("hello", 0, epoch=3)
        refusal = caller.counts.admission.refusal
        assert refusal(ONE, sender=Sender("r1", 2)).code == "stale_epoch"
        assert refusal(ONE, sender=Sender("r1", 3)) is None
        assert refusal(ONE) is None


async def test_a_restore_does_not_follow_a_prepare_of_the_same_operation(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        fields = caller.installing(1, {"manifest": {"sha256": "0"}}, one=1)
        assert await caller.refused("restore", 1, **fields) == "invalid_phase"


async def test_of_several_collectors_at_once_the_highest_epoch_is_obeyed(tmp_path):
    async with participant(tmp_path) as caller:
        codes = []

        async def prepare(epoch):
            _, body = await caller.post("prepare", 1, epoch=epoch)
            codes.append((epoch, body.get("code", body.get("phase"))))

        with caller.counts.admission.enter(ONE, "at work") as work:
            async with anyio.create_task_group() as tasks:
                for epoch in (1, 2, 3):
                    tasks.start_soon(prepare, epoch)
                await anyio.wait_all_tasks_blocked()
                assert (await caller.status())["epoch"] == 3
                work.rest()
        answers = dict(codes)
        assert answers.pop(3) == "prepared"
        assert set(answers.values()) <= {"stale_epoch", "stale_checkpoint"}
