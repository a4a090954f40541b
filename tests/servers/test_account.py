"""The ledger's files: what was said to be durable is there after any end, and nothing here fails a call."""

import errno
import logging
import os
import stat
import threading
from pathlib import Path

import anyio.to_thread
import httpx
import msgspec
import pytest
import trio

from triocollect import durable
from triocollect.capture import store as capture_store
from triocollect.capture.ledger import Deleted, Delivered, Forgotten, Retired, Snapshot
from triocollect.capture.rows import LedgerRow
from triocollect.capture.shares import ALONE, Share
from triocollect.errors import StorageError
from triocollect.participant import Admission
from triocollect.participant.workers.owner import owner_of
from triocollect.protocol.ids import EpisodeId
from triocollect.servers import threads
from triocollect.servers.model import account as account_module
from triocollect.servers.model import app as model_app
from triocollect.servers.model.account import AGAIN_MOST_S, AGAIN_S, AGAIN_TIMES, Account
from triocollect.servers.model.capture import Capture
from triocollect.servers.taking_part import CheckpointSettings, WorkerNumber

R0 = EpisodeId("r")
IN_THREAD = anyio.to_thread.run_sync


def delivered(call_id, episode=R0):
    return Delivered(episode, LedgerRow(call_id, None, "00", None, 1, 2))


def calls(account, episode=R0):
    return [row.call_id for row in account.ledger.rows(episode)]


async def inline(work):
    await trio.lowlevel.checkpoint()
    return work()


async def noted(account, *entries):
    for entry in entries:
        account.note(entry)
    await account.written()


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "capture" / "policy_model"


@pytest.fixture
def syncs(monkeypatch):
    seen = []
    real = os.fsync
    monkeypatch.setattr(durable.os, "fsync", lambda descriptor: (seen.append(descriptor), real(descriptor)))
    return seen


async def test_what_was_served_is_there_for_the_process_that_comes_after_a_kill(folder):
    account = Account(folder, IN_THREAD)
    account.note(delivered("a"))
    await account.durable()
    account.note(delivered("b"))
    account.note(Retired((EpisodeId("gone", 2),)))
    await account.durable()
    again = Account(folder, IN_THREAD)  # the first one was never closed: it was killed
    assert calls(again) == ["a", "b"]
    assert again.ledger.refusal(EpisodeId("gone", 2)).code == "retired"


async def test_calls_that_end_together_share_one_sync(folder, syncs):
    account = Account(folder, IN_THREAD)
    account.note(delivered("first"))
    await account.durable()
    syncs.clear()
    async with trio.open_nursery() as nursery:
        for number in range(100):
            account.note(delivered(str(number)))
            nursery.start_soon(account.durable)
    assert 1 <= len(syncs) <= 3
    assert len(Account(folder, IN_THREAD).ledger.rows(R0)) == 101


async def test_a_retire_that_is_asked_for_again_is_synced_again(folder, syncs):
    account = Account(folder, IN_THREAD)
    for _ in range(3):
        syncs.clear()
        account.note(Retired((R0,)))
        await account.durable()
        assert syncs


async def test_nobody_waits_for_what_is_on_disk(folder, syncs):
    account = Account(folder, IN_THREAD)
    account.note(delivered("a"))
    await account.durable()
    syncs.clear()
    await account.durable()
    assert not syncs


async def test_files_are_for_the_owner_alone(folder):
    account = Account(folder, IN_THREAD)
    account.note(delivered("a"))
    await account.durable()
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


async def test_a_process_takes_over_with_a_file_of_its_own_and_removes_those_before(folder):
    first = Account(folder, IN_THREAD)
    first.note(delivered("a"))
    await first.durable()
    second = Account(folder, IN_THREAD)
    assert files(folder) == ["ledger-000001.jsonl"]  # nothing is touched before it has something to say
    second.note(delivered("b"))
    await second.durable()
    assert files(folder) == ["ledger-000002.jsonl"]
    first.note(delivered("late"))
    await first.durable()  # it still runs, and disturbs nobody
    assert calls(Account(folder, IN_THREAD)) == ["a", "b"]


async def test_a_file_full_of_what_is_over_is_followed_by_a_small_one(folder, monkeypatch):
    monkeypatch.setattr(capture_store, "MOST_BYTES", 4096)
    account = Account(folder, IN_THREAD)
    for number in range(200):
        account.note(delivered(str(number), EpisodeId(f"r{number}")))
        account.note(Deleted((EpisodeId(f"r{number}"),)))
        await account.durable()
    account.note(delivered("kept"))
    await account.durable()
    (file,) = folder.iterdir()
    assert file.stat().st_size < 2 * 4096
    assert calls(Account(folder, IN_THREAD)) == ["kept"]


async def test_a_large_ledger_that_is_all_in_use_is_not_written_over_and_over(folder, monkeypatch):
    monkeypatch.setattr(capture_store, "MOST_BYTES", 4096)
    account = Account(folder, IN_THREAD)
    for number in range(400):
        account.note(delivered(str(number)))
        await account.durable()
    assert int(files(folder)[-1][7:13]) < 10


@pytest.mark.parametrize("cut", [1, 20])
async def test_a_torn_last_line_was_promised_to_nobody(folder, cut, caplog):
    account = Account(folder, IN_THREAD)
    for call_id in "ab":
        account.note(delivered(call_id))
        await account.durable()
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-cut])
    assert calls(Account(folder, IN_THREAD)) == ["a"]
    assert not caplog.records


async def test_a_damaged_line_is_told_by_its_number_and_the_rest_is_kept(folder, caplog):
    account = Account(folder, IN_THREAD)
    for call_id in "abc":
        account.note(delivered(call_id))
        await account.durable()
    (file,) = folder.iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"\xff\x00[\n" + lines[2])
    assert calls(Account(folder, IN_THREAD)) == ["a", "c"]
    assert "line 2 is damaged" in caplog.text


async def test_what_is_no_ledger_is_left_alone(folder):
    folder.mkdir(parents=True)
    (folder / "ledger-of-mine.jsonl").write_text("mine")
    account = Account(folder, IN_THREAD)
    account.note(delivered("a"))
    await account.durable()
    assert files(folder) == ["ledger-000001.jsonl", "ledger-of-mine.jsonl"]


def full(_descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("autojump_clock")
async def test_a_full_disk_is_told_once_fails_no_call_and_is_made_up_for(folder, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    account = Account(folder, inline)
    await noted(account, delivered("a"))
    with monkeypatch.context() as disk:
        disk.setattr(durable.os, "fsync", full)
        for call_id in "bc":
            await noted(account, delivered(call_id))
    assert calls(account) == ["a", "b", "c"]
    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("note: ")  # whoever started the server passes it on
    assert "No space left" in caplog.text
    await trio.sleep(AGAIN_S)
    await noted(account, delivered("d"))
    assert calls(Account(folder, inline)) == ["a", "b", "c", "d"]


@pytest.mark.usefixtures("autojump_clock")
async def test_on_a_full_disk_the_whole_ledger_is_not_tried_to_be_written_at_every_call(folder, monkeypatch):
    """Each try takes half a second here, so the next one comes ten seconds later."""
    tries = []

    async def slowly(work):
        tries.append(trio.current_time())
        await trio.sleep(0.5)
        return work()

    account = Account(folder, slowly)
    monkeypatch.setattr(durable.os, "fsync", full)
    for number in range(100):
        await noted(account, delivered(str(number)))
        await trio.sleep(0.1)
    assert len(tries) == 1
    await trio.sleep(AGAIN_TIMES * 0.5)
    await noted(account, delivered("last"))
    assert len(tries) == 2


async def test_a_file_that_cannot_be_removed_costs_no_ledger_at_every_call(folder, caplog):
    (folder / "ledger-000001.jsonl").mkdir(parents=True)  # so `unlink` fails for every user
    account = Account(folder, IN_THREAD)
    for number in range(5):
        await noted(account, delivered(str(number)))
    assert files(folder) == ["ledger-000001.jsonl", "ledger-000002.jsonl"]
    assert "cannot remove" in caplog.text
    assert len(calls(Account(folder, IN_THREAD))) == 5


@pytest.mark.usefixtures("autojump_clock")
async def test_who_cannot_see_what_is_there_gives_no_number_a_second_time(folder, monkeypatch):
    """What an earlier process left stays as it is, for the one that can read it."""
    await noted(Account(folder, inline), delivered("a"))

    def unlisted(_folder):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as disk:
        disk.setattr(Path, "iterdir", unlisted)
        account = Account(folder, inline)
        await noted(account, delivered("b"))
    assert calls(Account(folder, inline)) == ["a"]


A_CREW = tuple(Share(number, 4) for number in range(1, 5))
ROLLOUTS = [f"r{number}" for number in range(12)]  # some for each of four workers, and of two


def belong_to(share):
    return {name for name in ROLLOUTS if owner_of(name, share.of) == share.number}


async def served_by(folder, shares, call_id):
    """Each has a call of all its rollouts, and retires their first attempts; none is ended in order."""
    for share in shares:
        mine = sorted(belong_to(share))
        account = Account(folder, IN_THREAD, share)
        await noted(account, *(delivered(call_id, EpisodeId(name, 1)) for name in mine))
        await noted(account, Retired(tuple(map(EpisodeId, mine))))


def told(folder, shares):
    """The calls of each rollout, of each who says that it knows some or a fence."""
    said = {}
    for share in shares:
        ledger = Account(folder, IN_THREAD, share).ledger
        for name in {one.rollout_id for one in ledger.episodes} | set(ledger.fenced):
            rows = [row.call_id for row in ledger.rows(EpisodeId(name, 1))]
            said.setdefault(name, []).append((rows, ledger.refusal(EpisodeId(name)) is not None))
    return said


@pytest.mark.parametrize("shares", [(ALONE,), (Share(1, 2), Share(2, 2)), A_CREW], ids=len)
async def test_whoever_comes_after_a_crew_takes_in_what_it_left_each_his_own(folder, shares):
    await served_by(folder, A_CREW, "a")
    assert told(folder, shares) == {name: [(["a"], True)] for name in ROLLOUTS}
    await served_by(folder, shares, "b")
    assert told(folder, shares) == {name: [(["a", "b"], True)] for name in ROLLOUTS}
    assert len(files(folder)) == len(shares), "what earlier ones left is gone when all have taken it in"


async def test_what_a_crew_left_is_not_believed_again_when_its_number_of_workers_comes_back(folder):
    await served_by(folder, A_CREW, "a")
    await noted(Account(folder, IN_THREAD), Forgotten(None))
    assert files(folder) == ["ledger-000005.jsonl"]
    assert told(folder, A_CREW) == {}


async def test_what_one_of_two_has_not_taken_in_yet_stays_for_it(folder):
    await served_by(folder, A_CREW, "a")
    first, second = Share(1, 2), Share(2, 2)
    await noted(Account(folder, IN_THREAD, first), Forgotten(None))
    assert told(folder, (first, second)) == {name: [(["a"], True)] for name in belong_to(second)}
    assert told(folder, A_CREW) == {name: [(["a"], True)] for name in belong_to(second)}
    await noted(Account(folder, IN_THREAD, second), Forgotten(None))
    assert files(folder) == ["ledger-000005-1of2.jsonl", "ledger-000006-2of2.jsonl"]
    assert told(folder, A_CREW) == {}


async def test_a_worker_removes_nothing_of_those_beside_it(folder):
    await served_by(folder, A_CREW, "a")
    await served_by(folder, A_CREW[:1], "b")
    left = sorted(name.removesuffix(".jsonl")[-4:] for name in files(folder))
    assert left == ["1of4", "2of4", "3of4", "4of4"]


def test_no_two_servers_share_a_folder_whatever_they_are_called_and_all_workers_of_one_do(tmp_path):
    def own(instance, worker=None):
        return CheckpointSettings("s3cret", str(tmp_path), instance, worker).own("capture")

    assert own("model", WorkerNumber(1, 2)) == own("model", WorkerNumber(2, 2)) == own("model")
    assert own("model-1") != own("model")
    assert own("model-1").parent == own("model").parent


@pytest.mark.usefixtures("autojump_clock")
async def test_a_retire_is_not_done_before_it_is_on_disk_and_is_when_the_disk_takes_it(folder, monkeypatch):
    capture = Capture("policy_model", Admission(), None, Account(folder, inline))
    with monkeypatch.context() as disk:
        disk.setattr(durable.os, "fsync", full)
        for _ in range(2):  # the second is refused without a try: the disk is left alone for a while
            with pytest.raises(StorageError, match="No space left"):
                await capture.stop([R0])
    assert capture.ledger.refusal(R0).code == "retired", "of this process it is obeyed at once"
    await trio.sleep(AGAIN_S)
    await capture.stop([R0])
    assert Account(folder, inline).ledger.refusal(R0).code == "retired"


@pytest.mark.usefixtures("autojump_clock")
async def test_a_machine_that_slept_amid_a_write_keeps_no_retire_waiting_for_hours(folder, monkeypatch):
    async def asleep(work):
        await trio.sleep(600.0)
        return work()

    monkeypatch.setattr(account_module, "PATIENCE_S", 3600.0)
    capture = Capture("policy_model", Admission(), None, Account(folder, asleep))
    with monkeypatch.context() as disk:
        disk.setattr(durable.os, "fsync", full)
        with pytest.raises(StorageError):
            await capture.stop([R0])
    await trio.sleep(AGAIN_MOST_S)
    await capture.stop([R0])


class Disk:
    """One that hangs while it is told to; who waits for it is given up and it goes on."""

    def __init__(self):
        self.answers = threading.Event()
        self.answers.set()
        self.inside = self.most_inside = 0

    def fsync(self, _descriptor):
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        self.answers.wait()
        self.inside -= 1


@pytest.fixture
def hanging(monkeypatch):
    disk = Disk()
    monkeypatch.setattr(durable.os, "fsync", disk.fsync)
    yield disk
    disk.answers.set()


async def test_nobody_waits_for_a_disk_that_hangs_and_all_is_written_when_it_answers(
    folder, hanging, monkeypatch, caplog
):
    monkeypatch.setattr(account_module, "PATIENCE_S", 0.05)
    account = Account(folder, threads.IN_THREAD)
    await noted(account, delivered("a"))
    hanging.answers.clear()
    with trio.fail_after(20):
        for call_id in "bcd":
            await noted(account, delivered(call_id))
    with pytest.raises(StorageError, match="does not answer"):
        await account.durable()
    assert [message for message in caplog.messages if "does not answer" in message] == caplog.messages[:1]
    hanging.answers.set()
    await trio.sleep(0.1)  # the thread that hung ends
    await noted(account, delivered("e"))
    await account.durable()
    assert calls(Account(folder, IN_THREAD)) == ["a", "b", "c", "d", "e"]


async def test_whoever_is_cancelled_while_the_disk_hangs_goes_at_once_and_loses_nothing(folder, hanging):
    account = Account(folder, threads.IN_THREAD)
    await noted(account, delivered("a"))
    hanging.answers.clear()
    account.note(delivered("b"))
    with trio.fail_after(5), trio.move_on_after(0.01) as scope:
        await account.durable()
    assert scope.cancelled_caught
    with trio.move_on_after(0.2):
        await noted(account, delivered("c"))
    assert hanging.most_inside == 1, "the thread that hangs has the file to itself"
    hanging.answers.set()
    await noted(account, delivered("d"))
    assert calls(Account(folder, IN_THREAD)) == ["a", "b", "c", "d"]


async def test_whoever_is_cancelled_while_it_is_written_leaves_a_whole_ledger(folder):
    account = Account(folder, IN_THREAD)
    account.note(delivered("a"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await account.durable()
    account.note(delivered("b"))
    await account.durable()
    assert calls(Account(folder, IN_THREAD)) == ["a", "b"]


async def test_without_a_folder_there_is_no_file_and_no_wait(tmp_path):
    account = Account(None, IN_THREAD)
    account.note(delivered("a"))
    await account.durable()
    assert (calls(account), list(tmp_path.iterdir())) == (["a"], [])


async def test_a_ledger_that_was_cleared_is_empty_afterwards(folder):
    account = Account(folder, IN_THREAD)
    account.note(delivered("a"))
    account.note(Forgotten(None))
    await account.durable()
    assert Account(folder, IN_THREAD).ledger.snapshot() == Snapshot((), {})


def test_it_runs_under_asyncio_too(folder):
    async def main():
        account = Account(folder, IN_THREAD)
        account.note(delivered("a"))
        await account.durable()

    anyio.run(main, backend="asyncio")
    (file,) = folder.iterdir()
    assert msgspec.json.decode(file.read_bytes().splitlines()[0], type=Snapshot).kept[0].episode == R0


async def test_what_earlier_ones_left_is_read_by_who_serves_and_not_by_who_keeps_workers(tmp_path):
    checkpoint = CheckpointSettings("s3cret", str(tmp_path), "policy_model")
    await noted(Account(checkpoint.own("capture"), IN_THREAD), delivered("a"))
    app = model_app.build_app(model_app.ModelSettings("http://worker", checkpoint=checkpoint))
    account = app.state.hooks.account
    assert "ledger" not in vars(account)
    async with app.router.lifespan_context(app):
        assert "ledger" in vars(account)
    assert calls(account) == ["a"]


async def test_an_episode_can_be_closed_while_the_disk_is_full(tmp_path, monkeypatch):
    checkpoint = CheckpointSettings("s3cret", str(tmp_path), "policy_model")
    app = model_app.build_app(model_app.ModelSettings("http://worker", checkpoint=checkpoint))
    monkeypatch.setattr(durable.os, "fsync", full)
    model = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model")
    async with app.router.lifespan_context(app), model:
        reply = await model.post("/ng-rollout/r/close")
    assert reply.status_code == 200
