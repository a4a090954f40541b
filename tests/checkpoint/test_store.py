"""What stands in a checkpoint directory after everything that can happen to a publish."""

import contextlib
import errno
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from tests.checkpoint.checkpoints import SOME, draft, take
from tests.checkpoint.dying_disk import DeathError, DyingDisk
from triocollect.checkpoint.names import folder_name, new_checkpoint_id, sequence_of
from triocollect.checkpoint.rubbish import rubbish_in
from triocollect.checkpoint.store import Store
from triocollect.errors import DamageError, LockedError, StorageError
from triocollect.protocol.ids import EpisodeId

STEPS = 50  # more than a checkpoint takes, from its beginning to its prune
OLD, NEW = (EpisodeId("0-0"),), (EpisodeId("1-0"), EpisodeId("2-0", 3))


def names(root):
    return sorted(path.name for path in root.iterdir())


def continued(root):
    rung = Store(root).find()
    return None if rung.checkpoint is None else rung.checkpoint.collection.continued


def test_a_published_checkpoint_is_found_with_all_it_continues(tmp_path):
    assert Store(tmp_path).find().checkpoint is None
    take(Store(tmp_path))
    rung = Store(tmp_path).find()
    assert rung.skipped == ()
    assert rung.checkpoint.folder == tmp_path / "ckpt-000001"
    assert rung.checkpoint.collection.continued == SOME
    assert rung.checkpoint.bytes == 280


def test_a_directory_that_was_moved_is_read_as_before(tmp_path):
    (tmp_path / "here").mkdir()
    take(Store(tmp_path / "here"))
    shutil.move(tmp_path / "here", tmp_path / "elsewhere")
    assert continued(tmp_path / "elsewhere") == SOME
    assert not [
        path
        for path in (tmp_path / "elsewhere").rglob("*")
        if path.is_file() and str(tmp_path).encode() in path.read_bytes()
    ]


def test_nobody_else_can_read_what_is_kept(tmp_path):
    before = os.umask(0)
    try:
        take(Store(tmp_path))
    finally:
        os.umask(before)
    assert (tmp_path / "ckpt-000001").stat().st_mode & 0o777 == 0o700
    for name in ("LATEST", "ckpt-000001/collection.json"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_what_another_output_goes_on_from_stays_however_many_are_taken_in_its_directory(tmp_path):
    store, numbers = Store(tmp_path), []
    for output in ("theirs", "theirs", "ours", "ours", "ours"):
        if output == "ours" and len(numbers) == 2:
            store = Store(tmp_path)
            assert store.find(output="ours").checkpoint is None
        collection = msgspec.structs.replace(draft(store), output=output)
        numbers.append(collection.sequence)
        store.publish(collection)
        assert store.prune() == ()
    theirs, second, latest = (tmp_path / folder_name(numbers[place]) for place in (1, 3, 4))
    assert [tmp_path / name for name in names(tmp_path) if sequence_of(name)] == [theirs, second, latest]
    assert rubbish_in(tmp_path).folders == ()
    assert Store(tmp_path).find(output="theirs").checkpoint.folder == theirs
    (latest / "collection.json").unlink()
    assert Store(tmp_path).find(output="ours").checkpoint.folder == second


def test_an_output_that_begins_afresh_forgets_no_checkpoint_of_another(tmp_path):
    for output in ("theirs", "ours", "ours"):
        store = Store(tmp_path)
        store.publish(msgspec.structs.replace(draft(store), output=output))
    store = Store(tmp_path)
    assert store.forget("ours") == ()
    kept = [name for name in names(tmp_path) if sequence_of(name)]
    assert kept == ["ckpt-000001", "ckpt-000003"], "LATEST never goes back"
    assert Store(tmp_path).find(output="theirs").checkpoint.folder.name == "ckpt-000001"
    assert Store(tmp_path).find(output="ours afresh").checkpoint is None
    store.publish(msgspec.structs.replace(draft(store), output="ours afresh"))
    store.prune()
    assert [name for name in names(tmp_path) if sequence_of(name)] == ["ckpt-000001", "ckpt-000004"]


@pytest.mark.parametrize("power", [True, False], ids=["power cut", "kill"])
@pytest.mark.parametrize("steps", range(STEPS))
def test_a_crash_leaves_the_old_checkpoint_or_the_new_one(tmp_path, steps, power):
    store = Store(tmp_path)
    take(store)
    take(store, OLD)
    before = (tmp_path / "LATEST").read_bytes()
    with contextlib.suppress(DeathError), DyingDisk(tmp_path, steps, power=power):
        take(store, NEW)
    published = (tmp_path / "LATEST").read_bytes() != before
    assert continued(tmp_path) == (NEW if published else OLD)
    assert Store(tmp_path).find().skipped == ()
    take(Store(tmp_path), SOME)
    assert continued(tmp_path) == SOME
    assert len([name for name in names(tmp_path) if sequence_of(name)]) == 2
    assert not [name for name in names(tmp_path) if name.startswith(".")]


def test_a_checkpoint_takes_fewer_steps_than_are_tried(tmp_path):
    take(Store(tmp_path))
    take(Store(tmp_path))
    with DyingDisk(tmp_path) as disk:
        take(Store(tmp_path))
    assert 40 < len(disk.taken) < STEPS


@pytest.mark.parametrize("steps", range(STEPS))
def test_an_error_of_the_disk_is_no_checkpoint_or_one_that_is_told(tmp_path, steps):
    """Invariant: after "not published" LATEST has its bytes; a later trouble unpublishes nothing."""
    store = Store(tmp_path)
    take(store)
    take(store, OLD)
    before = (tmp_path / "LATEST").read_bytes()
    publication = collection = None
    with DyingDisk(tmp_path, steps, fails=True):
        try:
            collection = draft(store, NEW)
            publication = store.publish(collection)
        except (StorageError, OSError):
            assert (tmp_path / "LATEST").read_bytes() == before
            if collection is not None:
                assert store.discard(collection.sequence) == ()
        else:
            store.prune()
    assert continued(tmp_path) == (OLD if publication is None else NEW)
    if publication is not None and publication.unsynced is not None:
        assert names(tmp_path)[-3:] == ["ckpt-000001", "ckpt-000002", "ckpt-000003"], "nothing is pruned"
    take(store)
    assert len([name for name in names(tmp_path) if sequence_of(name)]) == 2


def test_numbers_go_up_over_failed_tries_deaths_and_strange_folders(tmp_path):
    store = Store(tmp_path)
    assert [take(store), draft(store).sequence, take(store)] == [1, 2, 3]
    (tmp_path / "ckpt-000050").mkdir()
    (tmp_path / "ckpt-000060").write_text("a file")
    assert Store(tmp_path).next_sequence() == 61
    assert Store(tmp_path).next_sequence(floor=99) == 100
    (tmp_path / "ckpt-000050").rmdir()
    (tmp_path / "ckpt-000060").unlink()
    failed = draft(store).sequence
    assert store.discard(failed) == ()
    assert Store(tmp_path).next_sequence() == failed + 1, "also when its folder is gone"
    store.forget()
    assert Store(tmp_path).next_sequence() == failed + 1, "also in a fresh run"


def test_a_failed_try_removes_its_own_folder_and_nothing_else(tmp_path):
    store = Store(tmp_path)
    take(store)
    for _ in range(3):
        assert store.discard(draft(store).sequence) == ()
    assert names(tmp_path) == [".trash-ckpt-000004", "LATEST", "ckpt-000001"]
    assert not any((tmp_path / ".trash-ckpt-000004").iterdir()), "only the number is kept"
    assert store.discard(1) == ()
    assert continued(tmp_path) == SOME


def test_two_are_kept_and_what_is_not_ours_is_left_alone(tmp_path):
    for name in ("ckpt-000002.bak", "notes.txt", "ckpt-7", "ckpt-000009", ".hidden"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "dir.tmp").mkdir()
    (tmp_path / "ckpt-000008").symlink_to(tmp_path / "dir.tmp")
    (tmp_path / "collector.lock").write_text("{}")
    (tmp_path / "dispatched.jsonl").write_text("{}")
    foreign = names(tmp_path)
    store = Store(tmp_path)
    for _ in range(4):
        take(store)
    assert names(tmp_path) == sorted([*foreign, "LATEST", "ckpt-000012", "ckpt-000013"])


def test_what_dead_processes_left_is_gone_after_the_next_publish(tmp_path):
    store = Store(tmp_path)
    take(store)
    for name in (".tmp-ckpt-000009", ".trash-ckpt-000001", "ckpt-000002"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("half")
    for name in ("LATEST.111.tmp", ".LATEST.tmp", ".dispatched.jsonl.tmp"):
        (tmp_path / name).write_text("half")
    assert take(Store(tmp_path)) == 3
    assert names(tmp_path) == [".dispatched.jsonl.tmp", "LATEST", "ckpt-000001", "ckpt-000003"], (
        "the log's draft may be at work"
    )


def test_temporaries_of_others_are_left_alone(tmp_path):
    mine = (
        ".notes.txt.tmp",
        ".tmp-build",
        ".trash-can",
        "LATEST-copy.tmp",
        ".tmp-ckpt-7",
        ".trash-ckpt-000001x",
    )
    for name in mine:
        (tmp_path / name).write_text("mine")
    take(Store(tmp_path))
    assert names(tmp_path) == sorted([*mine, "LATEST", "ckpt-000001"])


def test_a_pointer_that_cannot_be_read_keeps_no_run_from_starting(tmp_path, monkeypatch):
    take(Store(tmp_path))
    real = os.open

    def broken(path, *args):
        if Path(path).name == "LATEST":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *args)

    monkeypatch.setattr(os, "open", broken)
    store = Store(tmp_path)
    assert store.next_sequence() == 2
    (why,) = store.discard(1)
    assert "stays" in why, "nobody can tell whether it is the one that counts"


def test_the_newest_whole_one_is_kept_beside_the_latest(tmp_path):
    """B7: after a fallback from a damaged one the whole one below it must not be the one to go."""
    store = Store(tmp_path)
    take(store, OLD)
    take(store, NEW)
    records = next((tmp_path / "ckpt-000002").rglob("records-*"))
    records.write_bytes(records.read_bytes().replace(b"3", b"4"))
    later = Store(tmp_path)
    rung = later.find()
    assert rung.checkpoint.collection.continued == OLD
    assert [skipped.name for skipped in rung.skipped] == ["ckpt-000002"]
    take(later)
    assert names(tmp_path) == ["LATEST", "ckpt-000001", "ckpt-000003"]


def test_a_folder_that_was_never_published_is_never_preferred(tmp_path):
    store = Store(tmp_path)
    take(store, OLD)
    unpublished = draft(store, NEW)
    with pytest.raises(LockedError):
        Store(tmp_path, confirm=taken_over).publish(unpublished)
    assert (tmp_path / folder_name(unpublished.sequence) / "collection.json").is_file()
    assert continued(tmp_path) == OLD
    take(Store(tmp_path))
    assert names(tmp_path) == ["LATEST", "ckpt-000001", "ckpt-000003"]


@pytest.mark.parametrize("forgotten", [True, False])
def test_what_was_never_published_is_not_climbed_down_to(tmp_path, forgotten):
    """Also when the publish that left it behind dies before its prune, and is damaged then."""
    store = Store(tmp_path)
    take(store, OLD)
    if forgotten:
        (tmp_path / "LATEST").unlink()
    with pytest.raises(LockedError):
        Store(tmp_path, confirm=taken_over).publish(draft(store, NEW))
    later = draft(Store(tmp_path))
    Store(tmp_path).publish(later)
    (tmp_path / "ckpt-000003/collection.json").write_text("")
    assert continued(tmp_path) == (None if forgotten else OLD)
    take(Store(tmp_path))
    assert names(tmp_path) == ["LATEST", *([] if forgotten else ["ckpt-000001"]), "ckpt-000004"]


def taken_over():
    raise LockedError("another collector has taken over")


def test_nothing_of_a_forgotten_run_comes_back_when_the_forgetting_was_cut_short(tmp_path):
    take(Store(tmp_path), OLD)
    with contextlib.suppress(DeathError), DyingDisk(tmp_path, 2):  # LATEST is gone, durably; nothing else
        Store(tmp_path).forget()
    assert names(tmp_path) == ["ckpt-000001"]
    assert continued(tmp_path) is None
    take(Store(tmp_path), NEW)
    assert names(tmp_path) == ["LATEST", "ckpt-000002"]


@pytest.mark.parametrize("steps", range(12))
def test_a_death_while_forgetting_leaves_all_or_none(tmp_path, steps):
    store = Store(tmp_path)
    take(store, OLD)
    take(store, NEW)
    with contextlib.suppress(DeathError), DyingDisk(tmp_path, steps):
        store.forget()
    assert continued(tmp_path) in (NEW, None)
    store.forget()
    assert continued(tmp_path) is None
    assert names(tmp_path) == [".trash-ckpt-000002"]


def test_what_participants_did_not_write_here_is_not_published(tmp_path):
    """A participant on a host without the shared file system commits to its own disk."""
    store = Store(tmp_path)
    take(store, OLD)
    collection = draft(store, NEW)
    shutil.rmtree(tmp_path / "ckpt-000002/participants/agent")
    with pytest.raises(DamageError, match=r"participants/agent/agent/manifest\.json is not there"):
        store.publish(collection)
    store.discard(2)
    assert continued(tmp_path) == OLD


def test_names_are_numbers_and_back():
    assert [sequence_of(folder_name(number)) for number in (1, 999_999, 1_000_000)] == [1, 999_999, 1_000_000]
    assert [sequence_of(name) for name in ("ckpt-1", "ckpt-0000001", "ckpt-00000x", "x-000001")] == [None] * 4
    assert new_checkpoint_id(7) != new_checkpoint_id(7)
