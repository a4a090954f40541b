"""One checkpoint, from the closed gate to its outcome."""

import httpx
import pytest
import trio
from msgspec import UNSET

from tests.checkpoint.world import KINDS, world
from triocollect.checkpoint.operation import RESUME_SLACK_S
from triocollect.checkpoint.orders import NotPublished, Published
from triocollect.checkpoint.whole import read_whole
from triocollect.errors import LockedError, StorageError
from triocollect.events import CheckpointStarted
from triocollect.protocol.ids import EpisodeId, RowKey

ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


def on_disk(here):
    """The checkpoint that LATEST names, checked whole."""
    latest = here.latest
    return read_whole(here.root / f"ckpt-{latest.sequence:06d}", named=latest).collection


async def test_a_checkpoint_commits_exactly_the_rows_in_flight(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.fly(1)
        here.fly(2)
        here.air.reply(RowKey(2, 0))
        taken = await here.take()
        assert isinstance(taken, Published)
        assert taken.continued == (ZERO, ONE) == on_disk(here).continued
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


async def test_a_resume_that_is_answered_with_what_is_no_answer_is_owed(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["agent resume"] = [httpx.Response(200, content=b"<html>")]
        assert isinstance(await here.take(), Published)
        assert here.coordination.owes
        assert here.phases["agent"] == "closed"
        await here.coordination.settle_owed()
        assert not here.coordination.owes
        assert here.all_open


async def test_any_error_of_the_disk_is_no_checkpoint_and_not_the_end_of_the_run(
    tmp_path, autojump_clock, monkeypatch
):
    async with world(tmp_path) as here:
        here.fly(0)

        def broken(_sequence):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(here.store, "begin", broken)
        assert "Input/output error" in (await here.take()).reason
        assert here.all_open


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


async def test_a_participant_that_never_parks_delays_the_run_and_publishes_nothing(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="model")
        here.fly(1)
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert trio.current_time() == 300
        assert here.latest is None
        assert [blocker.key for blocker in taken.blockers] == ["0-0"]
        assert "model one at http://model waits for 0-0 (a step is under way)" in taken.reason
        assert not any("agent prepare" in one for one in here.network.heard)
        assert here.all_open
        assert not list(tmp_path.glob("ckpt-*"))


async def test_a_participant_that_is_not_heard_of_is_named(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["agent prepare"] = ["stuck"]
        taken = await here.take(timeout_s=60)
        assert "agent one at http://agent does not answer" in taken.reason
        assert here.all_open


async def test_the_report_of_blockers_comes_before_the_deadline(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0, busy="environment")
        taken = await here.take(timeout_s=10)
        assert trio.current_time() == 10
        assert [blocker.why for blocker in taken.blockers] == ["a step is under way"]
        assert here.outcomes[-1].blockers == taken.blockers
        assert here.outcomes[-1].ended == here.crew.clock()


async def test_a_lost_answer_to_a_commit_is_asked_for_again(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model commit"] = ["reply lost"]
        here.network.faults["environment commit"] = ["unreachable"]
        assert isinstance(await here.take(), Published)
        assert on_disk(here).continued == (ZERO,)


async def test_a_participant_that_is_gone_fails_the_checkpoint_soon(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        await here.take()
        before = (tmp_path / "LATEST").read_bytes()
        del here.network.planes["resources"]
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert "resources one at http://resources: prepare brought no answer" in taken.reason
        assert trio.current_time() < 30
        assert (tmp_path / "LATEST").read_bytes() == before
        assert here.air.gate.is_open


async def test_a_participant_that_restarted_between_prepare_and_commit_fails_the_checkpoint(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model commit"] = [lambda: here.restart_server("model")]
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert here.latest is None
        assert here.all_open


async def test_a_participant_that_restarted_after_its_commit_fails_the_checkpoint(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model status"] = [lambda: here.restart_server("model")]
        taken = await here.take()
        assert "model one at http://model: restarted in the middle" in taken.reason
        assert here.latest is None
        assert here.air.ledger.torn.keys() == {RowKey(0, 0)}


async def test_a_participant_whose_lease_ended_during_the_commit_fails_the_checkpoint(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["environment status"] = [here.servers["environment"].admission.end_of_lease]
        taken = await here.take()
        assert "is open, not committed" in taken.reason
        assert here.latest is None


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


@pytest.mark.parametrize("silent", [["environment"], ["resources", "agent", "model"], [*KINDS]])
async def test_servers_that_are_silent_at_the_end_hold_rows_up_for_little_beyond_the_timeout(
    tmp_path, autojump_clock, silent
):
    async with world(tmp_path) as here:
        here.fly(0, busy="resources")
        for kind in silent:
            here.network.faults[f"{kind} resume"] = ["stuck"]
        began = trio.current_time()
        assert isinstance(await here.take(timeout_s=20), NotPublished)
        assert trio.current_time() - began <= 20 + 1 + RESUME_SLACK_S
        assert here.air.gate.is_open
        closed = [kind for kind, phase in here.phases.items() if phase == "closed"]
        assert closed == [kind for kind in KINDS if kind in silent], "no other is left closed"


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


async def test_a_full_disk_publishes_nothing_and_the_run_goes_on(tmp_path, autojump_clock, monkeypatch):
    async with world(tmp_path) as here:
        here.fly(0)

        def full(_collection):
            raise StorageError("cannot write: no space left on device", path="collection.json")

        monkeypatch.setattr(here.store, "publish", full)
        taken = await here.take()
        assert "no space left" in taken.reason
        assert here.all_open
        assert not list(tmp_path.glob("ckpt-*")), "its folder is removed"


async def test_output_that_cannot_be_synced_ends_the_run(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)

        def broken():
            raise StorageError("cannot sync out.jsonl", path="out.jsonl")

        here.air.at_sync = broken
        with pytest.raises(StorageError):
            await here.take()
        assert here.latest is None
        assert set(here.phases.values()) == {"open"}
        assert not here.air.gate.is_open, "a run that ends starts no row"


async def test_a_directory_that_another_collector_has_now_ends_the_run(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.taken_over = LockedError("epoch 2 collects here")
        with pytest.raises(LockedError):
            await here.take()
        assert here.latest is None


async def test_what_goes_wrong_after_latest_moved_does_not_unpublish(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        for _ in range(2):
            await here.take()
        (tmp_path / ".trash-ckpt-000001").touch()  # where a folder is to be moved to
        for kind in here.servers:
            here.network.faults[f"{kind} resume"] = ["unreachable"] * 99
        taken = await here.take()
        assert isinstance(taken, Published)
        assert here.latest.checkpoint_id == taken.outcome.checkpoint_id
        assert [
            note for note in here.notes if note.startswith(f"cannot remove {tmp_path}/.trash-ckpt-000001")
        ]
        assert here.air.gate.is_open
        assert here.coordination.owes


async def test_a_deadline_that_passes_while_latest_moves_does_not_unpublish(
    tmp_path, autojump_clock, monkeypatch
):
    async with world(tmp_path) as here:
        here.fly(0)
        publish = here.store.publish

        def slow(collection):
            autojump_clock.jump(500)
            return publish(collection)

        monkeypatch.setattr(here.store, "publish", slow)
        assert isinstance(await here.take(), Published)
        assert here.all_open


async def test_every_try_has_a_number_of_its_own_and_two_checkpoints_are_kept(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        ids = [(await here.take()).outcome.checkpoint_id for _ in range(2)]
        here.network.faults["agent commit"] = [httpx.Response(500, content=b"broken")]
        ids.append((await here.take()).outcome.checkpoint_id)
        ids.append((await here.take()).outcome.checkpoint_id)
        assert len(set(ids)) == 4
        assert [outcome.published for outcome in here.outcomes] == [True, True, False, True]
        assert sorted(folder.name for folder in tmp_path.glob("ckpt-*")) == ["ckpt-000002", "ckpt-000004"]


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


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, content=b"<html>"),
        httpx.Response(200, content=b"{}"),
        httpx.Response(200, content=b'{"boot":1}'),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(200, content=b"\xff\xfe"),
        httpx.Response(302, headers={"location": "http://elsewhere"}),
        httpx.Response(500, content=b"\xff" * 5000),
        httpx.Response(409, json={"error": "no"}),
        httpx.Response(409, json={"error": {"code": "strange", "detail": "who knows"}}),
    ],
)
@pytest.mark.parametrize("route", ["prepare", "commit", "status"])
async def test_a_strange_answer_fails_the_checkpoint_and_names_who_gave_it(
    tmp_path, autojump_clock, answer, route
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults[f"model {route}"] = [answer]
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert taken.reason.startswith("model one at http://model: ")
        assert len(taken.reason) < 600
        assert here.all_open


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
