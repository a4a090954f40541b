"""Folders, pipes and links where a file of ours belongs: told, set aside, and no start fails or hangs."""

import contextlib
import os
import stat

import pytest

from tests.checkpoint.checkpoints import take
from triocollect.checkpoint.directory import (
    DISPATCHED,
    OUTCOMES,
    PID,
    open_directory,
    read_lock,
    read_outcomes,
    read_pid,
)
from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.ladder import episodes_named, find_checkpoint
from triocollect.checkpoint.sent import read_dispatched
from triocollect.checkpoint.store import Store
from triocollect.durable import Draft, open_file, other_than_a_file, read_at_most, set_aside
from triocollect.errors import StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import LOCK, CheckpointOutcome, DispatchHeader

pytestmark = pytest.mark.usefixtures("autojump_clock")

FIRST, SECOND = (EpisodeId("0-0"),), (EpisodeId("1-0"),)


def folder(path):
    path.mkdir()
    (path / "notes").write_text("mine")


def pipe(path):
    os.mkfifo(path)


def link(path):
    (path.parent / "elsewhere").write_text("theirs")
    path.symlink_to(path.parent / "elsewhere")


def link_to_nothing(path):
    path.symlink_to(path.parent / "nowhere")


def a_socket(path):
    os.mknod(path, stat.S_IFSOCK | 0o600)


OTHERS = {
    folder: "a folder",
    pipe: "a pipe",
    link: "a link",
    link_to_nothing: "a link",
    a_socket: "a socket",
}


def put(other, path):
    path.unlink(missing_ok=True)
    other(path)


async def run_once(root, warnings):
    """What a collector does with the files of its directory, from the lock to the last outcome."""
    directory = await open_directory(root, wait_s=None, warn=warnings.append)
    epoch = directory.raise_epoch()
    directory.write_pid()
    sent = read_dispatched(root / DISPATCHED)
    start_dispatched(root / DISPATCHED, DispatchHeader(directory.run, epoch, 1, 0), {}, boot="here").end()
    directory.append_outcome(CheckpointOutcome(operation=1, checkpoint_id="c-1", published=False))
    directory.confirm()
    directory.remove_pid()
    directory.close()
    return sent


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", [LOCK, PID, OUTCOMES])
async def test_what_is_no_file_is_set_aside_and_the_run_goes_on(tmp_path, name, other):
    put(other, tmp_path / name)
    warnings = []
    await run_once(tmp_path, warnings)
    (warning,) = warnings
    assert f"{tmp_path / name} was {OTHERS[other]}" in warning
    assert f"it is called {name}.not-a-file now" in warning
    assert other_than_a_file(tmp_path / f"{name}.not-a-file") == OTHERS[other]
    if other is link:
        assert (tmp_path / "elsewhere").read_text() == "theirs"
    warnings.clear()
    assert (await run_once(tmp_path, warnings)).complete
    assert warnings == []
    assert (read_lock(tmp_path).epoch, len(read_outcomes(tmp_path)[0])) == (2, 2)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", [LOCK, PID, DISPATCHED, OUTCOMES])
def test_readers_without_the_lock_do_not_wait_at_it(tmp_path, name, other):
    put(other, tmp_path / name)
    if other is not link:
        for read in (read_lock, read_outcomes):
            with contextlib.suppress(StorageError):
                assert read(tmp_path) in (None, ([], 0))
    assert read_pid(tmp_path) is None
    sent = read_dispatched(tmp_path / DISPATCHED)
    assert not sent.complete
    assert (sent.floor, len(sent.faults)) == (1, 1) if name == DISPATCHED else (0, 0)


@pytest.mark.parametrize("other", OTHERS)
def test_a_pointer_that_is_no_file_is_a_damaged_one_and_the_next_checkpoint_mends_it(tmp_path, other):
    store = Store(tmp_path)
    take(store, FIRST)
    take(store, SECOND)
    put(other, tmp_path / "LATEST")
    for _ in range(2):
        rung = Store(tmp_path).find()
        assert str(rung.skipped[0]) == f"LATEST was passed over: it is {OTHERS[other]}, not a file"
        assert rung.checkpoint.collection.continued == SECOND
    assert take(Store(tmp_path)) == 3
    assert find_checkpoint(tmp_path).skipped == ()
    assert other_than_a_file(tmp_path / "LATEST.not-a-file") == OTHERS[other]


@pytest.mark.parametrize("other", OTHERS)
def test_a_fresh_run_forgets_behind_a_pointer_that_is_no_file(tmp_path, other):
    take(Store(tmp_path), FIRST)
    put(other, tmp_path / "LATEST")
    told = Store(tmp_path).forget()
    assert [text for text in told if "is called LATEST.not-a-file now" in text] == list(told)
    assert find_checkpoint(tmp_path).checkpoint is None
    assert list(tmp_path.glob("ckpt-*")) == []


@pytest.mark.parametrize("other", OTHERS)
def test_a_draft_is_neither_written_through_a_link_nor_waited_for(tmp_path, other):
    put(other, tmp_path / ".LATEST.tmp")
    assert take(Store(tmp_path)) == 1
    assert find_checkpoint(tmp_path).skipped == ()
    if other is link:
        assert (tmp_path / "elsewhere").read_text() == "theirs"


def test_a_name_that_is_taken_already_gets_a_number(tmp_path):
    for _ in range(3):
        os.mkfifo(tmp_path / "LATEST")
        set_aside(tmp_path / "LATEST")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "LATEST.not-a-file", "LATEST.not-a-file-2", "LATEST.not-a-file-3",
    ]  # fmt: skip
    (tmp_path / "LATEST").write_text("a file")
    assert set_aside(tmp_path / "LATEST") is None
    assert set_aside(tmp_path / "nothing") is None


def test_a_draft_of_a_killed_run_is_written_over(tmp_path):
    (tmp_path / ".out.tmp").write_text("half of something long")
    draft = Draft(tmp_path / "out")
    draft.write(b"whole")
    draft.commit()
    assert (tmp_path / "out").read_bytes() == b"whole"


@pytest.mark.parametrize("name", ["collection.json", "manifest.json", "records-*.jsonl"])
@pytest.mark.parametrize("other", [folder, pipe])
def test_a_checkpoint_with_a_pipe_in_it_is_passed_over(tmp_path, name, other):
    take(Store(tmp_path), FIRST)
    take(Store(tmp_path), SECOND)
    put(other, next((tmp_path / "ckpt-000002").rglob(name)))
    assert find_checkpoint(tmp_path).checkpoint.collection.continued == FIRST
    assert set(episodes_named(tmp_path)) >= set(FIRST)


@pytest.mark.parametrize("name", ["collection.json", "manifest.json", "records-*.jsonl"])
def test_a_huge_file_is_passed_over_without_being_read(tmp_path, name):
    take(Store(tmp_path), FIRST)
    take(Store(tmp_path), SECOND)
    os.truncate(next((tmp_path / "ckpt-000002").rglob(name)), 1 << 40)
    rung = find_checkpoint(tmp_path)
    assert rung.checkpoint.collection.continued == FIRST
    assert f"{1 << 40} bytes, which is more than" in rung.skipped[0].why
    assert set(episodes_named(tmp_path)) >= set(FIRST)


def test_of_endless_outcomes_the_last_ones_are_read(tmp_path):
    path = tmp_path / OUTCOMES
    path.touch()
    os.truncate(path, 1 << 40)
    outcome = CheckpointOutcome(operation=1, checkpoint_id="c-1", published=True)
    with path.open("ab") as file:
        file.write(b"\n" + b'{"operation":1,"checkpoint_id":"c-1","published":true}\n')
    outcomes, end = read_outcomes(tmp_path)
    assert (outcomes, end) == ([outcome], path.stat().st_size)
    assert read_outcomes(tmp_path, end) == ([], end)


def test_what_is_no_file_is_not_opened_for_reading(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(OSError, match="it is no file"):
            open_file(path)
    (tmp_path / "file").write_bytes(b"12345")
    assert read_at_most(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="5 bytes, which is more than 4"):
        read_at_most(tmp_path / "file", 4)
