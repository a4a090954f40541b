"""`gc`: what no start needs goes, and nothing else."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.reading.golden import same_as_golden
from tests.reading.runs import lines, publish, result, snapshot
from triocollect.__main__ import main
from triocollect.checkpoint.ladder import find_checkpoint
from triocollect.checkpoint.store import Store
from triocollect.protocol.ids import EpisodeId

OURS = ("LATEST", "collector.lock", "dispatched.jsonl", "outcomes.jsonl")


@pytest.fixture
def ckpt(folder):
    return folder / "ckpt"


def litter(ckpt):
    """What deaths leave; what of it is not ours."""
    (ckpt / "ckpt-000007").mkdir()
    (ckpt / "ckpt-000007" / "half").write_bytes(b"12345")
    (ckpt / ".trash-ckpt-000001").mkdir()
    (ckpt / ".trash-ckpt-000001" / "rest").write_bytes(b"123")
    (ckpt / "LATEST.111.tmp").write_bytes(b"1")
    (ckpt / ".dispatched.jsonl.tmp").write_bytes(b"12")
    (ckpt / "collector.pid").write_bytes(b"9\n")
    (ckpt.parent / ".out_run.json.tmp").write_bytes(b"1234")
    foreign = [ckpt / "ckpt-7", ckpt / "notes.tmp", ckpt / ".trash-mine", ckpt.parent / ".out.jsonl.tmp"]
    for path in foreign:
        path.write_bytes(b"mine")
    (ckpt / "ckpt-000004").symlink_to(ckpt.parent)
    return [*foreign, ckpt / "ckpt-000004"]


def gc(*tokens):
    return main(["gc", *tokens])


def test_what_deaths_left_goes_and_what_is_not_ours_stays(ckpt, capsys):
    foreign = litter(ckpt)
    assert gc("ckpt", "--json") == 0
    told = capsys.readouterr().out
    assert same_as_golden("gc", told)
    assert all(path.read_bytes() == b"mine" for path in foreign if path.is_file())
    assert {path.name for path in ckpt.iterdir()} - {path.name for path in foreign} == {
        *OURS, "ckpt-000001", "ckpt-000002", ".trash-ckpt-000007",
    }  # fmt: skip
    assert list((ckpt / ".trash-ckpt-000007").iterdir()) == [], "which keeps its number used"
    assert Store(ckpt).next_sequence() == 8
    assert not (ckpt.parent / ".out_run.json.tmp").exists()


def test_a_second_time_there_is_nothing_to_do(ckpt, capsys):
    litter(ckpt)
    gc(".")
    capsys.readouterr()
    before = snapshot(ckpt)
    assert gc(".") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 bytes freed"
    assert snapshot(ckpt) == before


def test_a_dry_run_names_the_same_and_changes_nothing(ckpt, capsys):
    litter(ckpt)
    before = snapshot(ckpt.parent)
    assert gc("ckpt", "--dry-run", "--json") == 0
    dry = json.loads(capsys.readouterr().out)
    assert snapshot(ckpt.parent) == before
    assert gc("ckpt", "--json") == 0
    wet = json.loads(capsys.readouterr().out)
    assert (dry["removed"], dry["freed"]) == (wet["removed"], wet["freed"])


def test_only_the_newest_two_stay(ckpt):
    publish(Store(ckpt), EpisodeId("3-0", 2))
    assert gc("ckpt") == 0
    assert sorted(path.name for path in ckpt.glob("ckpt-*")) == ["ckpt-000002", "ckpt-000003"]


def test_what_latest_names_stays_even_damaged_and_so_does_the_one_to_fall_back_to(ckpt):
    publish(Store(ckpt), EpisodeId("3-0", 2))
    for number in (2, 3):
        records = next((ckpt / f"ckpt-00000{number}").rglob("records-*"))
        records.write_bytes(records.read_bytes().replace(b"3", b"4"))
    assert gc("ckpt") == 0
    assert sorted(path.name for path in ckpt.glob("ckpt-*")) == ["ckpt-000001", "ckpt-000003"]
    assert find_checkpoint(ckpt).checkpoint.folder.name == "ckpt-000001"


@pytest.mark.parametrize("latest", [None, b"", b"{"])
def test_without_a_latest_that_can_be_read_the_two_newest_whole_ones_stay(ckpt, latest):
    (ckpt / "ckpt-000005").mkdir()
    (ckpt / "LATEST").unlink()
    if latest is not None:
        (ckpt / "LATEST").write_bytes(latest)
    assert gc("ckpt") == 0
    assert sorted(path.name for path in ckpt.glob("ckpt-*")) == ["ckpt-000001", "ckpt-000002"]
    assert not (ckpt / "LATEST").exists() or (ckpt / "LATEST").read_bytes() == latest


def test_where_the_log_of_attempts_is_lost_every_checkpoint_that_names_some_stays(ckpt, capsys):
    publish(Store(ckpt), EpisodeId("3-0", 2))
    (ckpt / "dispatched.jsonl").unlink()
    assert gc("ckpt") == 0
    assert len(list(ckpt.glob("ckpt-*"))) == 3
    assert "dispatched.jsonl is lost" in capsys.readouterr().out


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize("held", ["ckpt/collector.lock", "out.jsonl"])
def test_while_a_collector_is_at_work_nothing_is_removed(ckpt, capsys, held, dry):
    litter(ckpt)
    (ckpt / "collector.pid").unlink()
    before = snapshot(ckpt)
    hold = f"import fcntl, sys; f = open({held!r}, 'r+'); fcntl.flock(f, 2); "
    hold += "print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ckpt.parent
    ) as holder:
        holder.stdout.readline()
        assert gc(".", *dry) == 4
        holder.stdin.close()
    assert f"another collector, process {holder.pid}" in capsys.readouterr().err
    assert snapshot(ckpt) == before


def test_a_collector_on_another_host_that_may_live_is_left_alone(ckpt, capsys):
    (ckpt / "collector.pid").write_bytes(b"4711\n")
    assert gc("ckpt") == 4
    assert "may be at work: process 4711 on n1" in capsys.readouterr().err
    assert (ckpt / "collector.pid").exists()


def test_a_directory_without_a_lock_file_gets_none(ckpt):
    (ckpt / "collector.lock").unlink()
    (ckpt / "ckpt-000007").mkdir()
    assert gc("ckpt") == 0
    assert not (ckpt / "collector.lock").exists()
    assert not (ckpt / "ckpt-000007").exists()


def test_of_a_run_whose_rows_have_all_ended_it_is_said_that_the_directory_may_go(folder, capsys):
    assert gc(".") == 0
    assert "may be removed" not in capsys.readouterr().out
    with (folder / "out.jsonl").open("ab") as file:
        file.write(lines(*map(result, range(3, 6))))
    before = snapshot(folder)
    assert gc(".") == 0
    told = "note: every row of out.jsonl has ended: it needs nothing of ckpt, which may be removed as a whole"
    assert told in capsys.readouterr().out
    assert snapshot(folder) == before
    publish(Store(folder / "ckpt"), EpisodeId("3-0", 5), output="another")
    assert gc(".") == 0
    assert "may be removed" not in capsys.readouterr().out


def test_a_run_without_checkpoints_has_its_drafts_swept(folder, capsys):
    shutil.rmtree(folder / "ckpt")
    (folder / ".out_materialized_inputs.jsonl.tmp").write_bytes(b"12345")
    assert gc("out.jsonl") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "5 bytes freed"


def test_where_no_checkpoint_directory_is_found_it_is_said(ckpt, capsys):
    shutil.rmtree(ckpt)
    assert gc("out.jsonl") == 0
    assert (
        "out.jsonl: no checkpoint directory is near it; --checkpoint-dir names one" in capsys.readouterr().out
    )
