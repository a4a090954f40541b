"""A collector that is gone: the pause ends by itself."""

import anyio

from tests.participant.harness import ONE, commit, inline, participant


async def test_whoever_waits_waits_until_the_leases_end_and_not_longer(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        start = anyio.current_time()
        await caller.ok("prepare", 1, budget_ms=5_000, lease_ms=60_000)
        assert await caller.add(ONE) == 1
        assert anyio.current_time() - start == 65
        assert await caller.phase() == "open"
        assert caller.counts.heard.count("open") == 1


async def test_a_lease_that_is_over_is_seen_by_the_next_who_asks(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        await caller.ok("prepare", 1, budget_ms=5_000, lease_ms=60_000)
        await anyio.sleep(64.5)
        assert (await caller.status())["lease_expires"] == 500
        await anyio.sleep(1)
        assert await caller.phase() == "open"
        assert await caller.refused("commit", 1, **commit(1, ONE)) == "stale_checkpoint"


async def test_every_call_of_the_operation_prolongs_the_lease(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        start = anyio.current_time()
        await caller.ok("prepare", 1)
        await anyio.sleep(30)
        await caller.ok("commit", 1, **commit(1, ONE))
        await anyio.sleep(30)
        await caller.ok("commit", 1, **commit(1, ONE), budget_ms=5_000, lease_ms=60_000)
        assert await caller.add(ONE) == 1
        assert anyio.current_time() - start == 125


async def test_a_later_call_with_less_never_shortens_the_lease(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        start = anyio.current_time()
        await caller.ok("prepare", 1, budget_ms=100_000, lease_ms=60_000)
        await caller.ok("commit", 1, **commit(1, ONE), budget_ms=1_000, lease_ms=60_000)
        assert await caller.add(ONE) == 1
        assert anyio.current_time() - start == 160


async def test_calls_of_others_do_not_prolong_the_lease(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        start = anyio.current_time()
        await caller.ok("prepare", 2)
        await anyio.sleep(60)
        assert await caller.refused("prepare", 1) == "stale_checkpoint"
        await caller.ok("hello", 0)
        await caller.status()
        assert await caller.add(ONE) == 1
        assert anyio.current_time() - start == 65


async def test_a_pause_after_a_resume_has_a_lease_of_its_own(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        await caller.ok("prepare", 1, budget_ms=0, lease_ms=600_000)
        await caller.ok("resume", 1)
        start = anyio.current_time()
        await caller.ok("prepare", 2, budget_ms=0, lease_ms=10_000)
        assert await caller.add(ONE) == 1
        assert anyio.current_time() - start == 10


async def test_many_who_wait_end_the_pause_once(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        await caller.ok("prepare", 1)
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(caller.add, ONE)
        assert caller.counts.counts[ONE] == 10
        assert caller.counts.heard.count("open") == 1


async def test_the_leases_end_stops_an_unfinished_write(tmp_path, autojump_clock):
    async def slow_disk(work):
        await anyio.sleep(100)
        return work()

    async with participant(tmp_path, in_thread=slow_disk) as caller:
        await caller.add(ONE)
        await caller.ok("prepare", 1)
        assert await caller.refused("commit", 1, **commit(1, ONE), budget_ms=1_000) == "deadline_exceeded"
        assert await caller.add(ONE) == 2
        await anyio.sleep(110)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


async def test_a_write_that_ends_after_the_lease_commits_nothing(tmp_path, autojump_clock):
    async def slow_disk(work):
        done = work()
        await anyio.sleep(100)
        return done

    async with participant(tmp_path, in_thread=slow_disk) as caller:
        await caller.ok("prepare", 1)
        code = await caller.refused("commit", 1, **commit(1, ONE), budget_ms=1_000, lease_ms=0)
        assert code == "deadline_exceeded"
        await anyio.sleep(200)
        assert await caller.phase() == "open"
