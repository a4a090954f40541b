"""Orders, one at a time."""

import pytest
import trio
import trio.testing

from tests.checkpoint.world import Running, world
from triocollect.checkpoint.inbox import tick
from triocollect.checkpoint.orders import Ended, RowsEnd
from triocollect.protocol.ids import EpisodeId, RowKey

ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


async def test_nothing_in_flight_is_no_checkpoint_and_says_so(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            here.inbox.checkpoint("signal")
            await trio.sleep(1)
            here.inbox.rows_done()
        assert here.latest is None
        assert here.notes == ["no checkpoint: no row is in flight"]
        assert [outcome.reason for outcome in here.outcomes] == ["no row is in flight"]


@pytest.mark.parametrize("asked", ["before", "after"])
async def test_a_checkpoint_that_was_asked_for_at_the_very_end_has_an_outcome(
    tmp_path, autojump_clock, asked
):
    async with world(tmp_path) as here:
        if asked == "after":
            here.inbox.rows_done()
        here.inbox.checkpoint("signal")
        here.inbox.stop(trio.current_time())
        await here.command()
        assert [outcome.published for outcome in here.outcomes] == [False]


async def test_the_library_hears_what_came_of_the_checkpoint_it_asked_for(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        answers = []

        async def ask():
            answers.append(await here.inbox.ask())

        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as asking:
                asking.start_soon(ask)
                asking.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                Running(here, nursery)
            here.inbox.rows_done()
        assert len(here.outcomes) == 1
        assert [answer.continued for answer in answers] == [(ZERO,), (ZERO,)]


async def test_who_asks_when_the_run_is_over_is_told_so(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.inbox.rows_done()
        assert await here.command() == Ended(RowsEnd.DONE)
        assert (await here.inbox.ask()).reason == "the run has ended"


async def test_the_timer_counts_from_the_end_of_the_last_checkpoint(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            nursery.start_soon(tick, here.inbox, 60)
            await trio.sleep(70)
            here.servers["agent"].at_boundary(ZERO)  # the first one ends at 70
            await trio.sleep(30)
            here.inbox.checkpoint("signal")  # the second at 100
            await trio.sleep(59)
            assert len(here.outcomes) == 2
            await trio.sleep(2)
            assert len(here.outcomes) == 3
            nursery.cancel_scope.cancel()


async def test_a_timer_that_rings_during_a_checkpoint_asks_for_no_other(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            nursery.start_soon(tick, here.inbox, 60)
            await trio.sleep(50)
            here.inbox.checkpoint("signal")
            await trio.sleep(40)
            here.servers["agent"].at_boundary(ZERO)  # it ends at 90
            await trio.sleep(59)
            assert len(here.outcomes) == 1
            await trio.sleep(2)
            assert len(here.outcomes) == 2
            nursery.cancel_scope.cancel()


async def test_the_timer_does_nothing_while_no_row_is_in_flight(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.air.ledger.restore([(RowKey(0, 0), EpisodeId("0-0", 1))])
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            nursery.start_soon(tick, here.inbox, 60)
            await trio.sleep(600)
            assert here.network.heard == here.outcomes == here.notes == []
            nursery.cancel_scope.cancel()


async def test_every_outcome_is_said_in_words(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.fly(1)
        here.servers["model"].restarts = [ONE]
        here.network.faults["agent prepare"] = ["unreachable"] * 3
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            for _ in range(2):
                here.inbox.checkpoint("signal")
                await trio.sleep(5)
            here.inbox.rows_done()
        failed, published = here.notes
        assert failed.startswith("no checkpoint: agent one at http://agent: prepare brought no answer")
        assert f"checkpoint {here.latest.checkpoint_id}: 1 row can be continued, 10 s of work" in published
        assert "1 in flight would start from their input: 1-0: model one" in published


async def test_a_run_that_ends_without_a_checkpoint_lets_everybody_go_but_who_hangs(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="resources")
        await here.take(timeout_s=10, stop=True)
        assert set(here.phases.values()) == {"closed"}
        here.network.faults["agent resume"] = ["stuck"]
        began = trio.current_time()
        await here.coordination.leave()
        assert trio.current_time() - began == 2
        needed = {kind: server.admission.attendance.needed for kind, server in here.servers.items()}
        assert needed == {"environment": False, "model": False, "agent": True, "resources": False}
        assert here.phases == {**dict.fromkeys(needed, "open"), "agent": "closed"}
