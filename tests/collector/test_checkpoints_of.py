"""Whose checkpoints a directory holds, and what of earlier runs counts where its log is lost."""

from attrs import evolve

from tests.collector.runs import RunFolder
from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.sent import Sent
from triocollect.checkpoint.store import Store
from triocollect.collector.history import history_of
from triocollect.collector.set_out import OwnStore, set_out
from triocollect.config import CheckpointConfig
from triocollect.durable import AppendFile
from triocollect.protocol.manifests import DispatchHeader

RESULT = '{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1.0}\n'


def started(folder, run):
    """What comes of a start with the checkpoint directory of that id, and what it says."""
    config, told, own = folder.config(), [], None
    if run is not None:
        config = evolve(config, checkpoint=CheckpointConfig(dir=folder.folder / run))
        own = OwnStore(Store(folder.folder / run), run)
    output = AppendFile(folder.output)
    outset = set_out(config, output, None, told.append, own)
    assert outset is not None
    outset.sinks.close()
    folder.output.write_text(RESULT)
    return outset, " ".join(note.text for note in told)


def test_rows_are_continued_from_the_directory_that_the_output_used_last(tmp_path):
    folder = RunFolder(tmp_path)
    assert started(folder, "a")[0].owns_checkpoints
    again, words = started(folder, "a")
    assert again.resumed
    assert again.owns_checkpoints
    assert "another checkpoint directory" not in words
    other, words = started(folder, "b")
    assert not other.owns_checkpoints
    assert "another checkpoint directory" in words
    assert "another checkpoint directory" in started(folder, None)[1]
    assert not started(folder, "b")[0].owns_checkpoints, "a run without checkpoints went on in between"


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


def test_where_the_log_is_lost_every_row_that_is_left_may_have_been_sent(tmp_path):
    folder = RunFolder(tmp_path)
    started(folder, None)
    outset, _ = started(folder, None)
    lost = Sent(header=None, attempts={}, floor=3, complete=False)
    history = history_of(outset.read_rows(), outset.survey, lost, [])
    assert sorted(history.attempts().values()) == [2, 2, 2], "one of the four is done"
    assert history_of(outset.read_rows(), outset.survey, evolve(lost, floor=0), []).tried == {}
