"""Which output and which checkpoint directory belong together."""

from pathlib import Path

import pytest

from tests.reading.runs import write_output
from triocollect.errors import UsageError
from triocollect.reading.places import Place, places


@pytest.mark.parametrize("path", [".", "out.jsonl", "ckpt"])
def test_each_half_of_a_run_leads_to_the_other(folder, path):
    assert places(Path(path)) == [Place(Path("out.jsonl"), Path("ckpt"))]


def test_a_directory_beside_the_folder_of_the_output_is_found_and_from_there_the_output(folder):
    (folder / "results").mkdir()
    for file in folder.glob("out*"):
        file.rename(folder / "results" / file.name)
    pair = [Place(Path("results/out.jsonl"), Path("ckpt"))]
    assert places(Path("results")) == places(Path("ckpt")) == pair


def test_what_lies_far_away_is_named(folder):
    far = folder / "far" / "away" / "checkpoints"
    far.parent.mkdir(parents=True)
    (folder / "ckpt").rename(far)
    assert places(Path("out.jsonl")) == [Place(Path("out.jsonl"), None)]
    assert places(far) == [Place(None, far)]
    pair = [Place(Path("out.jsonl"), far)]
    assert places(Path("out.jsonl"), directory=far) == places(far, output=Path("out.jsonl")) == pair


def test_a_directory_of_another_run_is_no_half_of_this_one(folder):
    write_output(folder, checkpoints="another")
    assert places(Path("out.jsonl")) == [Place(Path("out.jsonl"), None)]
    assert places(Path()) == [Place(Path("out.jsonl"), None), Place(None, Path("ckpt"))]
    assert places(Path("ckpt")) == [Place(None, Path("ckpt"))]


@pytest.mark.parametrize("lost", ["out_run.json", "ckpt/collector.lock"])
@pytest.mark.parametrize("path", [".", "out.jsonl", "ckpt"])
def test_where_no_id_tells_the_only_two_belong_together(folder, lost, path):
    (folder / lost).write_bytes(b"{")
    if lost == "out_run.json":
        assert places(Path(path)) == [Place(Path("out.jsonl"), Path("ckpt"))]
    else:  # the run file names an id that nothing has
        assert Place(Path("out.jsonl"), Path("ckpt")) not in places(Path(path))


@pytest.mark.parametrize("path", ["empty", "nowhere", "ckpt/LATEST/x"])
def test_where_nothing_of_a_run_is_the_user_is_told(folder, path):
    (folder / "empty").mkdir()
    with pytest.raises(UsageError):
        places(Path(path))
    with pytest.raises(UsageError, match="is no checkpoint directory"):
        places(Path("out.jsonl"), directory=Path(path))
