"""TERM and Ctrl-C: the checkpoint that a run stops with, and how long it may take."""

import pytest
import trio
import trio.testing
from httpx import Response

from tests.checkpoint.world import Running, world
from triocollect.checkpoint.orders import NotPublished, Published, RowsEnd
from triocollect.protocol.ids import EpisodeId, RowKey

ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


async def test_a_term_takes_a_checkpoint_and_cancels_the_rows_afterwards(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.stop(trio.current_time())
            await trio.sleep(5)
            assert not here.air.cancelled, "rows run on until the outcome is settled"
            here.servers["agent"].at_boundary(ZERO)
        assert running.ended.ending is RowsEnd.PREEMPTED
        assert isinstance(running.ended.taken, Published)
        assert here.air.cancelled
        assert set(here.phases.values()) == {"closed"}


async def test_a_term_during_a_checkpoint_makes_it_the_stop(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.checkpoint("signal")
            await trio.sleep(5)
            here.inbox.stop(trio.current_time())
            here.inbox.stop(trio.current_time())
            await trio.sleep(5)
            here.servers["agent"].at_boundary(ZERO)
        assert running.ended.ending is RowsEnd.PREEMPTED
        assert [outcome.published for outcome in here.outcomes] == [True]
        assert not any("resume" in one for one in here.network.heard)


async def test_a_term_while_participants_resume_takes_a_checkpoint_of_its_own(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model resume"] = ["stuck"]
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.checkpoint("signal")
            await trio.sleep(5)
            assert here.latest.sequence == 1
            nursery.start_soon(here.air.gate.enter, RowKey(7, 0))
            here.inbox.stop(trio.current_time())
            await trio.testing.wait_all_tasks_blocked()
            assert here.air.gate.waiting == 1, "no row is let in on the way"
            nursery.cancel_scope.cancel()
        assert trio.current_time() == 5, "nobody waits for the resume"
        assert running.ended.ending is RowsEnd.PREEMPTED
        assert here.latest.sequence == 2
        assert set(here.phases.values()) == {"closed"}


async def test_a_stop_that_fails_tries_again_while_a_fifth_of_the_grace_is_left(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model commit"] = ["unreachable"] * 6
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.stop(trio.current_time())
        assert isinstance(running.ended.taken, Published)
        assert [outcome.published for outcome in here.outcomes] == [False, False, True]


async def test_a_stop_that_cannot_succeed_ends_within_its_grace(tmp_path, autojump_clock):
    async with world(tmp_path, grace_s=120) as here:
        here.fly(0)
        del here.network.planes["resources"]
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.stop(trio.current_time())
        assert 30 < trio.current_time() <= 120
        assert 4 <= len(here.outcomes) <= 8, "ever more rarely"
        assert len([note for note in here.notes if note.startswith("no checkpoint")]) == 1
        assert here.notes[-1] == "there is no checkpoint: rows in flight start from their input"
        assert running.ended.ending is RowsEnd.PREEMPTED
        assert isinstance(running.ended.taken, NotPublished)
        assert here.air.cancelled
        assert not here.air.gate.is_open


async def test_a_stop_that_fails_on_a_full_disk_leaves_no_folder_and_the_last_checkpoint(
    tmp_path, autojump_clock
):
    async with world(tmp_path, grace_s=300) as here:
        here.fly(0)
        await here.take()
        before = (tmp_path / "LATEST").read_bytes()
        full = Response(422, json={"error": {"code": "invalid_state", "detail": "No space left on device"}})
        here.network.faults["model commit"] = [full] * 99
        async with trio.open_nursery() as nursery:
            Running(here, nursery)
            here.inbox.stop(trio.current_time())
        tries = [outcome for outcome in here.outcomes[1:] if not outcome.published]
        assert 4 <= len(tries) <= 9
        assert (tmp_path / "LATEST").read_bytes() == before
        assert [path.name for path in tmp_path.glob("ckpt-*")] == ["ckpt-000001"]
        assert len([note for note in here.notes if "No space left on device" in note]) == 1
        assert here.notes[-1].startswith(f"the checkpoint before stands: {here.latest.checkpoint_id}; ")


@pytest.mark.parametrize("kind", ["environment", "resources"])
async def test_a_participant_that_never_parks_does_not_keep_a_stop_beyond_its_grace(
    tmp_path, autojump_clock, kind
):
    async with world(tmp_path, grace_s=40) as here:
        here.fly(0, busy=kind)
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.checkpoint("signal")
            await trio.sleep(100)
            here.inbox.stop(trio.current_time())
        assert trio.current_time() == 140
        assert [blocker.key for blocker in running.ended.taken.blockers] == ["0-0"]


async def test_a_term_before_anything_was_sent_leaves_at_once(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.air.ledger.restore([(RowKey(0, 0), EpisodeId("0-0", 1))])
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.stop(trio.current_time())
        assert running.ended.ending is RowsEnd.PREEMPTED
        assert "no row was sent" in running.ended.taken.reason
        assert here.network.heard == []


async def test_no_row_starts_while_a_stop_with_nothing_to_take_is_put_on_record(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.air.ledger.restore([(RowKey(0, 0), EpisodeId("0-0", 1))])
        here.inbox.stop(trio.current_time())
        ended = await here.command()
        assert ended.ending is RowsEnd.PREEMPTED
        assert not here.air.gate.is_open


async def test_a_second_ctrl_c_gives_the_checkpoint_up(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.interrupt(trio.current_time())
            await trio.sleep(5)
            here.inbox.interrupt(trio.current_time())
        assert trio.current_time() == 5
        assert running.ended.ending is RowsEnd.INTERRUPTED
        assert here.latest is None
        assert here.air.cancelled


async def test_a_second_ctrl_c_between_two_tries_leaves_at_once(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["environment prepare"] = ["unreachable"] * 99
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.interrupt(trio.current_time())
            await trio.sleep(1.5)  # a try takes 1.2 s, a pause 1 s
            here.inbox.interrupt(trio.current_time())
        assert trio.current_time() == 1.5
        assert running.ended.ending is RowsEnd.INTERRUPTED
