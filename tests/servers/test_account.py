"""The ledger's files: what was said to be durable is there after any end, and nothing here fails a call."""

import errno
import logging
import os
import stat

import anyio.to_thread
import msgspec
import pytest
import trio

from triocollect import durable
from triocollect.capture import store as capture_store
from triocollect.capture.ledger import Deleted, Delivered, Forgotten, Retired, Snapshot
from triocollect.capture.rows import LedgerRow
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.model.account import Account

R0 = EpisodeId("r")
IN_THREAD = anyio.to_thread.run_sync


def delivered(call_id, episode=R0):
    return Delivered(episode, LedgerRow(call_id, None, "00", None, 1, 2))


def calls(account, episode=R0):
    return [row.call_id for row in account.ledger.rows(episode)]


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


async def test_a_full_disk_is_told_once_fails_no_call_and_is_made_up_for(folder, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    account = Account(folder, IN_THREAD)
    account.note(delivered("a"))
    await account.durable()

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(durable.os, "fsync", full)
        for call_id in "bc":
            account.note(delivered(call_id))
            await account.durable()
    assert calls(account) == ["a", "b", "c"]
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    account.note(delivered("d"))
    await account.durable()
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
