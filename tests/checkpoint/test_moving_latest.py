"""What a disk or another collector does to a checkpoint, before LATEST moves and after."""

import httpx
import pytest

from tests.checkpoint.world import world
from triocollect.checkpoint.orders import Published
from triocollect.errors import LockedError, StorageError


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
