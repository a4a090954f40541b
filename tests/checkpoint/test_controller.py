"""Orders, one at a time."""

import pytest
import trio
import trio.testing
from httpx import Response

from tests.checkpoint.world import world
from triocollect.checkpoint.inbox import tick
from triocollect.checkpoint.orders import Ended, Ending, NotPublished, Published
from triocollect.protocol.ids import EpisodeId, RowKey

ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


class Running:
    """The controller at work in the background; `ended` when it has."""

    def __init__(self, here, nursery):
        self.here, self.ended = here, None
        nursery.start_soon(self._run)

    async def _run(self):
        self.ended = await self.here.command()


def lost(here, task):
    episode = here.fly(task)
    here.air.ledger.no_reply(RowKey(task, 0))
    here.inbox.retire()
    return episode


async def test_a_term_takes_a_checkpoint_and_cancels_the_rows_afterwards(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="agent")
        async with trio.open_nursery() as nursery:
            running = Running(here, nursery)
            here.inbox.stop(trio.current_time())
            await trio.sleep(5)
            assert not here.air.cancelled, "rows run on until the outcome is settled"
            here.servers["agent"].at_boundary(ZERO)
        assert running.ended.ending is Ending.PREEMPTED
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
        assert running.ended.ending is Ending.PREEMPTED
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
        assert running.ended.ending is Ending.PREEMPTED
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
        assert running.ended.ending is Ending.PREEMPTED
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
        assert running.ended.ending is Ending.PREEMPTED
        assert "no row was sent" in running.ended.taken.reason
        assert here.network.heard == []


async def test_no_row_starts_while_a_stop_with_nothing_to_take_is_put_on_record(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.air.ledger.restore([(RowKey(0, 0), EpisodeId("0-0", 1))])
        here.inbox.stop(trio.current_time())
        ended = await here.command()
        assert ended.ending is Ending.PREEMPTED
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
        assert running.ended.ending is Ending.INTERRUPTED
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
        assert running.ended.ending is Ending.INTERRUPTED


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
        assert await here.command() == Ended(Ending.DONE)
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
        assert running.ended == Ended(Ending.DONE)
        assert not here.air.cancelled


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
