"""`verify` on directories that nobody collects into any more."""

import json

import pytest

from tests.checkpoint.checkpoints import draft, take
from triocollect.__main__ import main
from triocollect.checkpoint.names import folder_name
from triocollect.checkpoint.store import Store


@pytest.fixture
def store(tmp_path):
    """Two checkpoints, of two rows each."""
    store = Store(tmp_path / "ck")
    store.root.mkdir()
    take(store)
    take(store)
    return store


def records(store, sequence):
    return next((store.root / folder_name(sequence)).rglob("records-*.jsonl"))


def test_a_checkpoint_directory_alone_can_be_verified(store, capsys):
    assert main(["verify", str(store.root)]) == 0
    told = capsys.readouterr().out
    assert "2 rows in flight can be continued" in told
    assert f"also kept: {folder_name(1)}" in told
    assert "yes  LATEST, and every file that it and the other kept checkpoints lead to, is what was" in told


def test_a_byte_that_changed_is_found_and_the_exit_code_says_so(store, capsys):
    file = records(store, 2)
    file.write_bytes(file.read_bytes().replace(b"3", b"4"))
    assert main(["verify", str(store.root)]) == 4
    told = capsys.readouterr().out
    assert "NO   LATEST, and every file" in told
    assert "other bytes than when it was written" in told


def test_what_a_death_left_is_named_and_is_no_fault(store, capsys):
    draft(store)
    assert main(["verify", str(store.root), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["checkpoints"]
    assert found["also"] == [folder_name(1)]
    assert [fault.split("/")[0] for fault in found["passed_over"]] == [folder_name(3)]


def test_a_kept_checkpoint_that_changed_is_a_fault_although_latest_is_whole(store, capsys):
    records(store, 1).unlink()
    assert main(["verify", str(store.root)]) == 4
    assert "NO   LATEST, and every file that it and the other kept" in capsys.readouterr().out


def test_a_directory_without_a_checkpoint_adds_up(store, capsys):
    (store.root / "LATEST").unlink()
    (store.root / "collector.lock").touch()
    assert main(["verify", str(store.root)]) == 0
    assert "no checkpoint" in capsys.readouterr().out


def test_what_lies_in_a_run_s_folder_is_found(store, tmp_path, capsys):
    (tmp_path / "out_run.json").write_text("{}")
    (tmp_path / "effects").mkdir()
    assert main(["verify", str(tmp_path), "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert [one["output"] for one in told["outputs"]] == [str(tmp_path / "out.jsonl")]
    assert [one["directory"] for one in told["checkpoints"]] == [str(store.root)]
    assert told["account"]["results"] == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "no output of a run in"),
        (["--checkpoint-dir", "nowhere"], "--checkpoint-dir nowhere: is no checkpoint directory"),
        (["--effects", "nowhere"], "no output of a run in"),
    ],
)
def test_where_there_is_nothing_to_look_at_the_user_is_told(tmp_path, capsys, more, words):
    assert main(["verify", str(tmp_path), *more]) == 2
    assert words in capsys.readouterr().err


def test_effects_of_nobody_knows_which_output_are_refused(store, tmp_path, capsys):
    for name in ("one", "two"):
        (tmp_path / f"{name}_run.json").write_text("{}")
    assert main(["verify", str(tmp_path), "--effects", str(tmp_path)]) == 2
    assert "name the one output" in capsys.readouterr().err
