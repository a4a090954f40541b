"""A participant whose answers are well-formed and untrue: nothing is published, and it is named."""

import httpx
import pytest

from tests.checkpoint.network import Lie
from tests.checkpoint.world import world
from triocollect.checkpoint.orders import NotPublished, Published
from triocollect.checkpoint.plan import Tried, plan
from triocollect.checkpoint.restore import restore
from triocollect.errors import CheckpointError
from triocollect.protocol.ids import EpisodeId, RowKey

ZERO, ONE = EpisodeId("0-0"), EpisodeId("1-0")


def manifest(**changed):
    def of(answer):
        return {**answer, "manifest": {**answer["manifest"], **changed}}

    return of


def of_the_model(answer):
    """The agent says that the model's manifest is its own."""
    path = answer["manifest"]["path"].replace("/agent/", "/model/")
    return {**answer, "manifest": {**answer["manifest"], "path": path}}


LIES = {
    "agent commit": [
        (manifest(sha256="0" * 64), "other bytes than when agent one wrote it"),
        (manifest(path="ckpt-000001/../../secrets"), "wrote 'ckpt-000001/../../secrets', not ckpt-000001/"),
        (manifest(path="/etc/passwd"), "wrote '/etc/passwd', not ckpt-000001/"),
        (manifest(path="ckpt-000001/nowhere.json"), "wrote 'ckpt-000001/nowhere.json', not ckpt-000001/"),
        (manifest(record_count=7), "is not what collection.json says of agent one"),
        (of_the_model, "wrote 'ckpt-000001/participants/model/one/manifest.json', not ckpt-000001/"),
        (lambda answer: {**answer, "exported": ["0-0", "1-0", "9-9"]}, "3 episodes exported in 2 records"),
        (lambda answer: {**answer, "phase": "open"}, "agent one at http://agent: is open, not committed"),
        (lambda answer: {**answer, "boot": "another"}, "agent one at http://agent: restarted in the middle"),
    ],
    "agent prepare": [
        (lambda answer: {**answer, "phase": "restored"}, "at http://agent: is restored, not preparing"),
    ],
    "agent status": [
        (lambda answer: {**answer, "operation": 99}, "is committed by operation 99 of epoch 1, not by 1"),
        (lambda answer: {**answer, "epoch": 99}, "is committed by operation 1 of epoch 99"),
        (lambda answer: {**answer, "phase": "open"}, "agent one at http://agent: is open, not committed"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "lie", "words"), [(call, *lie) for call, lies in LIES.items() for lie in lies]
)
async def test_who_lies_in_a_checkpoint_is_named_and_the_run_goes_on(
    tmp_path, autojump_clock, call, lie, words
):
    async with world(tmp_path) as here:
        here.fly(0)
        here.fly(1)
        here.network.faults[call] = [Lie(lie)]
        taken = await here.take()
        assert isinstance(taken, NotPublished)
        assert words in taken.reason
        assert "agent" in taken.reason
        assert here.latest is None
        assert here.all_open
        here.air.ledger.torn.clear()  # where it lied about its boot
        assert isinstance(await here.take(), Published), "as soon as nobody lies any more"


async def test_an_episode_that_nobody_asked_for_is_not_continued(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        here.fly(1)
        here.servers["model"].restarts = [ONE]
        claims = Lie(lambda answer: {**answer, "exported": ["1-0"]})
        here.network.faults["environment commit"] = [claims]
        taken = await here.take()
        assert isinstance(taken, Published)
        assert taken.continued == ()
        assert {one.capture_key for one in taken.restarted} == {"0-0", "1-0"}


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lambda answer: {**answer, "installed": []}, "no environment has installed 0-0-a1"),
        (lambda answer: {**answer, "installed": ["0-0"]}, "no environment has installed 0-0-a1"),
        (lambda answer: {**answer, "phase": "open"}, "is open, not restored"),
        (lambda answer: {**answer, "boot": "another"}, "restarted in the middle"),
    ],
)
async def test_who_lies_in_a_restore_is_named_and_rows_start_from_their_input(
    tmp_path, autojump_clock, lie, words
):
    async with world(tmp_path) as here:
        here.fly(0)
        assert isinstance(await here.take(stop=True), Published)
        for kind in here.servers:
            await here.restart_server(kind)
        await here.take_over(epoch=2)
        here.know({RowKey(0, 0): 0})
        here.network.faults["environment restore"] = [Lie(lie)]
        whole = here.store.find().checkpoint
        made = plan(whole.collection.continued, {"0-0": Tried(key=RowKey(0, 0), highest=0, sent=0)})
        restoration = await restore(here.crew, whole, made, lambda _: None)
        assert restoration.restored == 0
        assert words in restoration.fault
        assert here.air.ledger.lost == {RowKey(0, 0): EpisodeId("0-0", 1)}, "retired before it is sent again"
        assert here.all_open


@pytest.mark.parametrize("status", [404, 405, 500])
async def test_a_server_that_stops_to_speak_the_protocol_is_named(tmp_path, autojump_clock, status):
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["resources commit"] = [httpx.Response(status, content=b"Not Found")]
        taken = await here.take()
        assert (
            taken.reason == f"resources one at http://resources: answered commit with {status}: 'Not Found'"
        )
        assert here.all_open


async def test_what_a_participant_does_not_say_is_retired_stays_to_be_retired(tmp_path, autojump_clock):
    """An answer to an earlier retire, say, that a server or somebody on the way gives once more."""
    async with world(tmp_path) as here:
        here.fly(0)
        here.network.faults["model retire"] = [Lie(lambda answer: {**answer, "retired": ["1-0"]})]
        with pytest.raises(
            CheckpointError, match="model one at http://model: did not say that 0-0 is retired"
        ):
            await here.coordination.retire((ZERO,))
        await here.coordination.retire((ZERO,))


async def test_a_participant_that_greets_and_then_keeps_silent_does_not_hold_a_start_up(
    tmp_path, autojump_clock
):
    async with world(tmp_path) as here:
        here.network.faults["agent status"] = ["stuck"]
        with pytest.raises(CheckpointError, match="did not say within 10 s where it stands"):
            await here.coordination.statuses()
