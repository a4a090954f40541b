"""What is done between checkpoints: rows without a reply are retired, and lost resumes are repeated."""

import trio
import trio.testing

from tests.checkpoint.world import Running, world
from triocollect.checkpoint.orders import Ended, RowsEnd
from triocollect.protocol.ids import EpisodeId, RowKey

ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


def lost(here, task):
    episode = here.fly(task)
    here.air.ledger.no_reply(RowKey(task, 0))
    here.inbox.retire()
    return episode


async def test_rows_without_a_reply_are_retired_everywhere_episodes_first(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            episode = lost(here, 0)
            await trio.sleep(1)
            here.inbox.rows_done()
        assert [server.stopped for server in here.servers.values()] == [[episode]] * 4
        assert here.network.heard[:2] == ["environment retire", "agent retire"]
        assert here.air.ledger.lost == {}
        assert here.air.told_retired == 1


async def test_a_retire_never_falls_inside_a_checkpoint(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            here.inbox.checkpoint("signal")
            await trio.sleep(5)
            lost(here, 1)
            await trio.sleep(5)
            assert not any("retire" in one for one in here.network.heard)
            here.servers["agent"].at_boundary(ZERO)
            await trio.sleep(1)
            assert here.air.ledger.lost == {}
            here.inbox.rows_done()
        assert ONE not in here.outcomes


async def test_a_stop_overtakes_a_retire_that_hangs(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.servers["agent"].stop_waits = trio.Event()
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            lost(here, 1)
            await trio.sleep(5)
            here.inbox.stop(trio.current_time())
        assert trio.current_time() == 5
        assert running.ended.taken.continued == (ZERO,)
        assert here.air.ledger.lost == {RowKey(1, 0): ONE}


async def test_a_retire_that_hangs_is_put_back_and_repeated(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.servers["agent"].stop_waits = trio.Event()
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            lost(here, 1)
            await trio.sleep(31)
            assert here.air.ledger.lost == {RowKey(1, 0): ONE}
            await trio.sleep(100)
            assert len([note for note in here.notes if "1 rows are not retired yet" in note]) == 1
            here.servers["agent"].stop_waits.set()
            await trio.sleep(30)
            assert here.air.ledger.lost == {}
            here.inbox.rows_done()


async def test_more_rows_than_one_call_takes_are_retired_in_batches(tmp_path, autojump_clock):
    async with world(tmp_path, kinds=["environment", "model"]) as here:
        for task in range(1500):
            lost(here, task)
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            await trio.sleep(1)
            here.inbox.rows_done()
        assert here.network.heard.count("environment retire") == 2
        assert len(here.servers["model"].stopped) == 1500


async def test_a_resume_that_was_lost_is_repeated_before_the_next_operation(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model resume"] = ["unreachable"] * 3
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            here.inbox.checkpoint("signal")
            await trio.sleep(1.5)
            assert here.air.gate.is_open
            assert here.phases["model"] == "closed"
            here.network.heard.clear()
            lost(here, 1)
            await trio.sleep(0.1)
            assert here.network.heard[:2] == ["model resume", "environment retire"]
            here.inbox.rows_done()


async def test_a_resume_that_was_lost_is_repeated_in_the_background(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model resume"] = ["unreachable"] * 3
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            here.inbox.checkpoint("signal")
            await trio.sleep(4)
            assert here.all_open
            assert not here.coordination.owes
            here.inbox.rows_done()


async def test_a_participant_that_never_answers_its_resume_is_left_alone_after_its_lease(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model resume"] = ["unreachable"] * 999
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            here.inbox.checkpoint("signal")
            await trio.sleep(10)
            lost(here, 1)
            await trio.sleep(10)
            assert not any("retire" in one for one in here.network.heard), "somebody is closed still"
            await trio.sleep(1000)
            assert not here.coordination.owes
            assert here.air.ledger.lost == {}
            assert here.all_open, "its lease has opened it"
            here.network.heard.clear()
            await trio.sleep(100)
            assert here.network.heard == []
            here.inbox.rows_done()


async def test_a_term_while_the_last_rows_are_retired_ends_the_run_as_done(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.servers["agent"].stop_waits = trio.Event()
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            lost(here, 1)
            here.inbox.rows_done()
            await trio.sleep(5)
            here.inbox.stop(trio.current_time())
        assert trio.current_time() == 5
        assert running.ended == Ended(RowsEnd.DONE)
        assert not here.air.cancelled
