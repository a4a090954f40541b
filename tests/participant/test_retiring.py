"""What retires and forgets beside a checkpoint."""

import anyio

from tests.participant.harness import ONE, participant, retire


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
