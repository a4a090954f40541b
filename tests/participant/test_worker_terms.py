"""What a worker of several knows of the lease, and what its coordinator keeps of rollouts that are over."""

import anyio

from tests.participant.harness import inline
from tests.participant.workers import EPISODES, crowd


async def test_a_worker_knows_how_long_the_coordinator_keeps_it_closed(tmp_path, autojump_clock):
    async with crowd(tmp_path, 2, in_thread=inline) as caller:
        await caller.ok("prepare", 1, budget_ms=2_000, lease_ms=60_000)
        ours = caller.coordinator.crew
        assert ours.closed
        for worker in caller.workers.values():
            assert 50 < worker.admission.lease.longest_s() <= 62
            assert worker.admission.lease.left_ms() is None, "it does not open by itself"
        await caller.ok("resume", 1)
        assert not any(worker.admission.lease.longest_s() < 3600 for worker in caller.workers.values())


async def test_a_part_that_is_noted_while_its_rollout_is_forgotten_does_not_stay(tmp_path, autojump_clock):
    async with crowd(tmp_path, 2, in_thread=inline) as caller, anyio.create_task_group() as tasks:
        finished = EPISODES[0]
        worker = caller.owner(finished)
        worker.ours.hold()  # what it says is on its way
        await worker.member.noted(finished)
        tasks.start_soon(lambda: caller.ok("forget", 1, rollout_ids=[finished.rollout_id]))
        await anyio.wait_all_tasks_blocked()
        worker.ours.go_on()
        await anyio.wait_all_tasks_blocked()
        await caller.kill(worker.number)
        assert not caller.coordinator.crew.lost_on(worker.number)
