"""Which rows in flight a checkpoint holds, which it leaves out, and for whom it waits."""

import itertools
import re
from pathlib import Path

import trio
from msgspec import UNSET

from tests.checkpoint.world import world
from triocollect.checkpoint.orders import Published
from triocollect.protocol.ids import EpisodeId, RowKey

README = Path(__file__).parents[2] / "README.md"
ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


async def test_rows_sent_before_a_participant_restarted_are_left_out(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        await here.restart_server("resources")
        taken = await here.take()
        assert isinstance(taken, Published)
        assert taken.continued == ()
        assert [one.capture_key for one in taken.restarted] == ["0-0"]
        assert "resources one at http://resources restarted" in taken.restarted[0].reason
        here.fly(1)
        assert (await here.take()).continued == (ONE,), "sent after the restart"


async def test_what_somebody_cannot_capture_is_left_out_of_the_scope(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.fly(1)
        here.servers["resources"].restarts = [ZERO]
        taken = await here.take()
        assert taken.continued == (ONE,)
        assert "resources one at http://resources cannot capture it" in taken.restarted[0].reason
        [(reason, count)] = here.outcomes[-1].restarted_why.items()
        assert (reason, count) == (taken.restarted[0].reason, 1)
        assert (here.outcomes[-1].work_s, here.outcomes[-1].lost_s) == (10, 10)


async def test_calls_under_way_at_a_cut_are_on_record_where_somebody_counts_them(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        assert (await here.take()).outcome.undelivered is UNSET
        here.servers["model"].counts = {"undelivered": 3, "others": 7}
        assert (await here.take()).outcome.undelivered == 3


async def test_what_is_counted_only_while_it_is_written_is_on_record(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        model = here.servers["model"]
        model.counts = {"undelivered": 3, "cut": 0, "kept_tokens": 0}
        model.counts_written = {"cut": 2, "kept_tokens": 40}
        outcome = (await here.take()).outcome
        assert (outcome.undelivered, outcome.cut, outcome.kept_tokens) == (3, 2, 40)


async def test_rows_whose_environment_takes_no_part_are_left_out_and_not_waited_for(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.air.ledger.start(RowKey(1, 0), "1-0")
        here.air.without_control = {ONE: "its environment takes no part"}
        taken = await here.take()
        assert (taken.continued, trio.current_time()) == ((ZERO,), 0)
        assert taken.restarted[0].reason == "its environment takes no part"


async def test_a_reply_that_was_on_the_wire_is_waited_for(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.air.ledger.start(RowKey(1, 0), "1-0")  # its environment has answered already

        async def arrive():
            await trio.sleep(3)
            here.air.reply(RowKey(1, 0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(arrive)
            taken = await here.take()
        assert trio.current_time() == 3
        assert (taken.continued, taken.restarted) == ((ZERO,), ())


async def test_a_row_that_is_nowhere_is_not_waited_for_longer_than_ten_seconds(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.air.ledger.start(RowKey(1, 0), "1-0")
        taken = await here.take()
        assert trio.current_time() == 10
        assert [one.reason for one in taken.restarted] == ["no environment exported it"]


async def test_a_short_deadline_waits_for_a_quarter_of_what_is_left(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.air.ledger.start(RowKey(1, 0), "1-0")
        await here.take(timeout_s=8)
        assert trio.current_time() == 2


async def test_a_row_that_ended_while_the_output_was_synced_is_synced_too_and_not_continued(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.fly(1)

        def answered():
            here.air.at_sync = lambda: None
            here.air.reply(RowKey(0, 0))

        here.air.at_sync = answered
        taken = await here.take()
        assert (taken.continued, here.air.syncs) == ((ONE,), 2)


async def test_restored_rows_that_were_not_sent_are_continued_at_the_attempt_they_will_run_as(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        restored = EpisodeId("5-0", 3)
        here.air.ledger.restore([(RowKey(5, 0), restored)])
        here.servers["environment"].held[restored] = 7
        assert (await here.take()).continued == (restored,)


async def test_participants_are_asked_in_the_order_that_the_readme_draws(tmp_path, autojump_clock):
    drawn = README.read_text().partition("<!-- checkpoint -->")[2].partition("<!-- /checkpoint -->")[0]
    names = dict(re.findall(r"participant (\w) as (\w+)", drawn))
    told = [f"{names[whom]} {what}" for whom, what in re.findall(r"C->>(\w): (\w+)", drawn)]
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.heard.clear()
        await here.take()
        assert in_turns(here.network.heard) == in_turns(told)


def in_turns(heard):
    """One after another where the order counts; commits, and the last question, go to all at once."""
    return [
        frozenset(turn) if verb in {"commit", "status"} else tuple(turn)
        for verb, turn in itertools.groupby(heard, key=lambda call: call.partition(" ")[2])
    ]
