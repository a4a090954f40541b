"""One checkpoint, from the closed gate to its outcome."""

import trio

from tests.checkpoint.world import world
from triocollect.checkpoint.orders import Published
from triocollect.events import CheckpointStarted
from triocollect.protocol.ids import EpisodeId, RowKey

ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


async def test_a_checkpoint_commits_exactly_the_rows_in_flight(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.fly(1)
        here.fly(2)
        here.air.reply(RowKey(2, 0))
        taken = await here.take()
        assert isinstance(taken, Published)
        assert taken.continued == (ZERO, ONE) == here.on_disk.continued
        assert taken.outcome.work_s == 20.0
        assert taken.outcome.bytes > 0
        assert here.all_open


async def test_kinds_are_closed_in_order_and_opened_in_reverse(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        await here.take()
        heard = here.network.heard
        order = ["environment", "model", "agent", "resources"]
        assert [one for one in heard if "prepare" in one] == [f"{kind} prepare" for kind in order]
        assert [one for one in heard if "resume" in one] == [f"{kind} resume" for kind in reversed(order)]
        verbs = list(dict.fromkeys(one.split()[1] for one in heard))
        assert verbs == ["prepare", "commit", "status", "resume"]


async def test_no_row_starts_while_a_checkpoint_is_open(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        started = []

        async def row(key):
            await here.air.gate.enter(key)
            await here.air.gate.opened()
            started.append((key, trio.current_time()))

        async def step():
            await trio.sleep(20)
            here.servers["agent"].at_boundary(ZERO)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(step)
            nursery.start_soon(here.take)
            await trio.sleep(1)
            nursery.start_soon(row, RowKey(7, 0))
        assert started == [(RowKey(7, 0), 20)]


async def test_the_report_of_blockers_comes_before_the_deadline(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="environment")
        taken = await here.take(timeout_s=10)
        assert trio.current_time() == 10
        assert [blocker.why for blocker in taken.blockers] == ["a step is under way"]
        assert here.outcomes[-1].blockers == taken.blockers
        assert here.outcomes[-1].blocker_count == 1
        assert here.outcomes[-1].ended == here.crew.clock()


async def test_a_stop_does_not_resume(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        taken = await here.take(stop=True)
        assert isinstance(taken, Published)
        assert taken.stopped
        assert set(here.phases.values()) == {"closed"}
        assert not here.air.gate.is_open
        assert not any("resume" in one for one in here.network.heard)


async def test_a_stop_leaves_old_checkpoints_to_the_run_after_it(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        for _ in range(2):
            await here.take()
        await here.take(stop=True)
        numbers = [f"ckpt-{number:06d}" for number in (1, 2, 3)]
        assert sorted(path.name for path in tmp_path.glob("ckpt-*")) == numbers
        await here.take_over(epoch=2)
        here.inbox.rows_done()
        await here.command()
        assert sorted(path.name for path in tmp_path.glob("ckpt-*")) == numbers[1:]


async def test_every_try_is_announced_and_put_on_record_with_its_phases(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="environment")

        async def step():
            await trio.sleep(5)
            here.servers["environment"].at_boundary(ZERO)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(step)
            await here.take()
        assert here.events[0] == CheckpointStarted(1, "signal")
        assert here.ended == here.outcomes
        phases = here.outcomes[0].phases_s
        assert phases["prepare"] == 5
        assert {"commit", "replies", "confirm", "sync", "publish", "prune", "resume"} <= phases.keys()


async def test_a_cancelled_run_lets_its_participants_go(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        with trio.move_on_after(5):
            await here.take()
        assert set(here.phases.values()) == {"open"}
        assert trio.current_time() == 5


async def test_a_call_says_what_is_left_less_a_tenth_and_at_least_a_second(tmp_path, autojump_clock):
    async with world(tmp_path, timeout_s=100) as here:
        here.fly(0)
        await here.take(timeout_s=100)
        await here.take(timeout_s=1)
        calls = [body for call, body in here.network.sent if call == "environment prepare"]
        assert [(call["budget_ms"], call["lease_ms"], call["operation"]) for call in calls] == [
            (90_000, 200_000, 1),
            (1000, 200_000, 2),
        ]
        assert [body["stop"] for call, body in here.network.sent if "commit" in call] == [False] * 8
