"""Whose checkpoints a directory holds, and what of earlier runs counts where its log is lost."""

import msgspec
import pytest
from attrs import evolve

from tests.collector.runs import RunFolder
from tests.reading.runs import publish
from triocollect import errors
from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.sent import Sent, read_dispatched
from triocollect.checkpoint.store import Store
from triocollect.collector.history import history_of
from triocollect.collector.set_out import OwnStore, set_out
from triocollect.config import CheckpointConfig
from triocollect.durable import AppendFile
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import DispatchHeader, LockFile

RESULT = '{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1.0}\n'


def started(folder, run, *, sends=True, **output):
    """What comes of a start with the checkpoint directory of that id, and what it says."""
    config, told, own = folder.config(output=output), [], None
    if run is not None:
        config = evolve(config, checkpoint=CheckpointConfig(dir=folder.folder / run))
        own = OwnStore(Store(folder.folder / run), run)
    output = AppendFile(folder.output)
    try:
        outset = set_out(config, output, None, told.append, own)
    except errors.RefusedError:
        output.close()
        raise
    assert outset is not None
    outset.sinks.close()
    if sends:
        outset.record_directory()
    folder.output.write_text(RESULT)
    return outset, " ".join(note.text for note in told if note.level == "warning")


def locked(folder, run):
    """A directory of that id, as a collector leaves it."""
    folder.mkdir()
    lock = LockFile(run=run, epoch=1, pid=4711, host="n1", started="2026-01-02T03:00:00+00:00")
    (folder / "collector.lock").write_bytes(msgspec.json.encode(lock))
    return folder


def in_flight_at(folder, run):
    """Rows 0 to 2 are in the checkpoint of a directory; row 0 is done since."""
    started(folder, run)
    publish(Store(locked(folder.folder / run, run)), *[EpisodeId(f"{task}-0") for task in range(3)])


def test_rows_are_continued_from_the_directory_that_the_output_used_last(tmp_path):
    folder = RunFolder(tmp_path)
    assert started(folder, "a")[0].owns_checkpoints
    again, words = started(folder, "a")
    assert again.resumed
    assert again.owns_checkpoints
    assert words == ""
    other, words = started(folder, "b")
    assert not other.owns_checkpoints
    assert f"with the checkpoint directory {tmp_path / 'a'} the last time, which is not there" in words
    assert f"{tmp_path / 'b'} the last time" in started(folder, None)[1]
    assert not started(folder, "b")[0].owns_checkpoints, "a run without checkpoints went on in between"


@pytest.mark.parametrize("given", [None, "b"])
def test_rows_in_flight_are_not_left_in_the_directory_of_the_last_time_by_an_oversight(tmp_path, given):
    folder = RunFolder(tmp_path)
    in_flight_at(folder, "a")
    before = folder.snapshot()
    with pytest.raises(errors.DriftError) as refused:
        started(folder, given)
    assert folder.snapshot() == before
    said = str(refused.value)
    assert f"--checkpoint-dir {tmp_path / 'a'} the last time, which holds 2 rows in flight" in said
    assert "--accept-drift checkpoint_dir" in said
    assert started(folder, "a", sends=False)[0].owns_checkpoints
    accepted, words = started(folder, given, accept_drift=frozenset({"checkpoint_dir"}))
    assert not accepted.owns_checkpoints
    assert f"2 rows in flight in {tmp_path / 'a'} start from their input, as was accepted" in words
    assert accepted.run_file.drift == (), "no result is another for it"
    assert started(folder, given)[1] == ""


def test_a_directory_that_holds_nothing_of_the_output_any_more_may_be_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    started(folder, "a")
    locked(tmp_path / "a", "a")
    assert started(folder, None)[1] == ""


def test_a_run_that_sent_nothing_leaves_the_directory_of_the_last_time_on_record(tmp_path):
    folder = RunFolder(tmp_path)
    started(folder, "a")
    started(folder, "b", sends=False)
    assert started(folder, "a")[0].owns_checkpoints


def test_an_output_that_lost_its_run_file_is_known_again_by_its_directory_and_a_new_one_is_not(tmp_path):
    folder = RunFolder(tmp_path)
    first, _ = started(folder, "a")
    header = DispatchHeader("a", 1, 0, reserved=0, output=first.run_file.run)
    (tmp_path / "a").mkdir()
    start_dispatched(tmp_path / "a" / DISPATCHED, header, {}).close()
    first.files.run.unlink()
    again, _ = started(folder, "a")
    assert again.run_file.run == first.run_file.run
    folder.output = tmp_path / "other.jsonl"
    assert started(folder, "a")[0].run_file.run != first.run_file.run


def shared(folder):
    """The directory `a`, in which row 0 of the output is in flight; the run of that output."""
    first, _ = started(folder, "a")
    run, root = first.run_file.run, locked(folder.folder / "a", "a")
    publish(Store(root), EpisodeId("0-0"), output=run)
    start_dispatched(root / DISPATCHED, DispatchHeader("a", 1, 1, reserved=0, output=run), {"0-0": 0}).close()
    return run, root


def test_an_output_takes_no_identity_from_another_one_that_shares_its_directory(tmp_path):
    folder = RunFolder(tmp_path)
    run, root = shared(folder)
    folder.output = tmp_path / "other.jsonl"
    copy = (tmp_path / "out_materialized_inputs.jsonl").read_bytes()
    (tmp_path / "other_materialized_inputs.jsonl").write_bytes(copy)  # killed before its run file was there
    other, words = started(folder, "a")
    assert (other.run_file.run == run, other.resumed, words) == (False, False, "")
    mine = other.run_file.run
    publish(Store(root), EpisodeId("1-0"), output=mine)
    other.files.run.unlink()
    assert started(folder, "a")[0].run_file.run == mine, "its own checkpoint names it"


def test_a_new_output_has_nothing_to_resume_in_a_directory_that_another_one_has_used(tmp_path):
    folder = RunFolder(tmp_path)
    _, root = shared(folder)
    folder.output = tmp_path / "other.jsonl"
    with pytest.raises(errors.NothingToResumeError):
        started(folder, "a", resume="must")
    fresh, words = started(folder, "a", resume="never")
    assert (fresh.resumed, words) == (False, "")
    sent = read_dispatched(root / DISPATCHED)
    assert sent.start > max(sent.attempts.values()), "the attempts of a directory only rise"


def test_an_output_that_is_overwritten_forgets_nothing_of_another(tmp_path):
    folder = RunFolder(tmp_path)
    run, root = shared(folder)
    folder.output = tmp_path / "other.jsonl"
    started(folder, "a")
    started(folder, "a", resume="never", overwrite=True)
    assert Store(root).find(output=run).checkpoint is not None


def test_where_the_log_is_lost_every_row_that_is_left_may_have_been_sent(tmp_path):
    folder = RunFolder(tmp_path)
    started(folder, None)
    outset, _ = started(folder, None)
    lost = Sent(header=None, attempts={}, floor=3, complete=False)
    history = history_of(outset.read_rows(), outset.survey, lost, [])
    assert sorted(history.attempts().values()) == [2, 2, 2], "one of the four is done"
    assert history_of(outset.read_rows(), outset.survey, evolve(lost, floor=0), []).tried == {}
