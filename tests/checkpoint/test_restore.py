"""A restart: from a checkpoint to rows that go on, or start again."""

import pytest
import trio

from tests.checkpoint.world import world
from triocollect.checkpoint.orders import Published
from triocollect.checkpoint.plan import Tried, plan
from triocollect.checkpoint.restore import restore
from triocollect.errors import StateError, StorageError
from triocollect.protocol.ids import EpisodeId, RowKey

KEYS = [RowKey(task, 0) for task in range(3)]
CONTINUED = [EpisodeId(str(key), 1) for key in KEYS[:2]]


async def preempt(here):
    """Two rows are in flight, each somewhere else in its episode; the run is stopped, every process ends."""
    for task in range(2):
        episode = here.fly(task)
        for server in here.servers.values():
            server.held[episode] = 10 + task
    assert isinstance(await here.take(stop=True), Published)
    for kind in here.servers:
        await here.restart_server(kind)
    await here.take_over(epoch=2)


async def restart(here, *, tried=None, log=None):
    """Plan and restore; the installs that were logged."""
    rows = {str(key): Tried(key=key, highest=0, sent=0) for key in KEYS[:2]} if tried is None else tried
    logged = []

    def log_installs(episodes):
        assert not any("restore" in one for one in here.network.heard), "the log comes first"
        logged.extend(episodes)

    rung = here.store.find()
    made = plan(rung.checkpoint.collection.continued, rows)
    here.know({row.key: row.highest for row in rows.values()})
    here.restoration = await restore(here.crew, rung.checkpoint, made, log or log_installs)
    return logged


async def test_rows_in_flight_go_on_as_their_next_attempt_where_they_stood(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        await preempt(here)
        assert await restart(here) == CONTINUED
        assert here.restoration.restored == 2
        assert set(here.air.ledger.restored.values()) == set(CONTINUED)
        for server in here.servers.values():
            assert server.held == {CONTINUED[0]: 10, CONTINUED[1]: 11}
        assert here.all_open
        sent = here.air.ledger.start(KEYS[0], "0-0")
        assert sent == CONTINUED[0]
        assert KEYS[0] in here.air.ledger.continuing


async def test_everybody_is_asked_whether_it_is_fresh_before_anything_is_installed(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        await preempt(here)
        await restart(here)
        verbs = list(dict.fromkeys(one.split()[1] for one in here.network.heard))
        assert verbs == ["status", "restore", "resume"]


async def test_nothing_to_continue_is_no_call(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        await preempt(here)
        await restart(here, tried={})
        assert here.restoration.restored == 0
        assert here.network.heard == []


async def test_a_checkpoint_that_no_server_of_a_kind_has_a_part_in_is_not_restored(tmp_path, autojump_clock):
    async with world(tmp_path, kinds=("environment", "model")) as here:
        await preempt(here)
        await here.restart_server("agent")
        await here.take_over(epoch=2)
        await restart(here)
        assert here.restoration.restored == 0
        assert "agent" in here.restoration.fault
        assert not any("restore" in one for one in here.network.heard)
        assert {one.attempt for one in here.air.ledger.lost.values()} == {0}, "nothing was installed"


async def test_a_participant_that_has_served_is_not_restored_into(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        await preempt(here)
        here.servers["model"].begin(EpisodeId("0-0"))
        assert await restart(here) == []
        assert "model one at http://model: has served already" in here.restoration.fault
        assert here.restoration.restarted == tuple(CONTINUED)
        assert not any("restore" in one for one in here.network.heard)
        assert here.air.ledger.lost == {key: EpisodeId(str(key)) for key in KEYS[:2]}
        assert here.air.ledger.next_attempt(KEYS[0]) == 1


async def test_a_participant_of_the_checkpoint_that_is_missing_restores_nobody(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        await preempt(here)
        del here.servers["resources"]
        await here.take_over(epoch=3)
        await restart(here)
        assert "resources one: has a part in the checkpoint and is not there" in here.restoration.fault


@pytest.mark.parametrize("fault", ["refuses", "unreachable", "stuck", "forgets"])
async def test_a_restore_that_fails_leaves_nothing_installed_and_its_attempts_refused(
    tmp_path, autojump_clock, fault
):
    async with world(tmp_path) as here:
        await preempt(here)
        if fault == "refuses":
            here.servers["agent"].refuses_install = StateError("the records are not mine")
        elif fault == "forgets":
            here.servers["environment"].forgets_to_install = CONTINUED[0]
        else:
            here.network.faults["agent restore"] = [fault] * 3
        assert await restart(here) == CONTINUED
        assert here.restoration.fault is not None
        assert here.air.ledger.restored == {}
        assert here.all_open
        here.inbox.rows_done()
        await here.command()
        for server in here.servers.values():
            assert server.held == {}
            assert server.admission.marks.refusal(CONTINUED[0]).retired_through == 1
        assert here.air.ledger.lost == {}
        assert here.air.ledger.next_attempt(KEYS[0]) == 2


async def test_a_participant_that_restarts_after_it_has_installed_restores_nobody(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        await preempt(here)
        here.network.faults["agent resume"] = [lambda: here.restart_server("agent")]
        await restart(here)
        assert "agent one at http://agent: restarted" in here.restoration.fault
        assert here.restoration.restarted == tuple(CONTINUED)
        assert here.air.ledger.restored == {}
        assert here.air.ledger.lost == dict(zip(KEYS, CONTINUED, strict=False))


async def test_installs_that_cannot_be_logged_are_not_made(tmp_path, autojump_clock):
    def full(_episodes):
        raise StorageError("cannot append to dispatched.jsonl", path="dispatched.jsonl")

    async with world(tmp_path) as here:
        await preempt(here)
        await restart(here, log=full)
        assert "cannot append" in here.restoration.fault
        assert not any("restore" in one for one in here.network.heard)


async def test_rows_that_may_be_running_still_are_retired_before_they_are_sent_again(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        await preempt(here)
        rows = {str(key): Tried(key=key, highest=0, sent=0) for key in KEYS}
        await restart(here, tried=rows)
        assert here.air.ledger.lost == {KEYS[2]: EpisodeId("2-0")}
        here.inbox.rows_done()
        await here.command()
        assert here.servers["model"].stopped == [EpisodeId("2-0")]


@pytest.mark.parametrize("verb", ["restore", "resume"])
async def test_a_restore_that_is_cancelled_lets_the_participants_go(tmp_path, autojump_clock, verb):
    async with world(tmp_path) as here:
        await preempt(here)
        here.network.faults[f"agent {verb}"] = ["stuck"]
        with trio.move_on_after(5):
            await restart(here)
        assert trio.current_time() == 5
        assert set(here.phases.values()) == {"open"}


async def test_a_stop_leaves_a_restore_at_once(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        await preempt(here)
        here.network.faults["agent restore"] = ["stuck"]
        async with trio.open_nursery() as nursery:

            async def restoring():
                with here.inbox.giving_way():
                    await restart(here)

            nursery.start_soon(restoring)
            await trio.sleep(5)
            here.inbox.stop(trio.current_time())
        assert trio.current_time() == 5
        ended = await here.command()
        assert "no row was sent" in ended.taken.reason


async def test_a_restart_killed_before_it_sent_anything_restores_again_one_attempt_higher(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        await preempt(here)
        await restart(here)
        await here.take_over(epoch=3)
        await restart(here, tried={str(key): Tried(key=key, highest=1, sent=1) for key in KEYS[:2]})
        again = [EpisodeId(str(key), 2) for key in KEYS[:2]]
        assert sorted(here.air.ledger.restored.values()) == again
        for server in here.servers.values():
            assert sorted(server.held) == again


async def test_rows_restored_and_not_sent_stay_in_the_next_checkpoint(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        await preempt(here)
        await restart(here)
        here.air.ledger.start(KEYS[0], "0-0")
        assert (await here.take()).continued == tuple(CONTINUED)
