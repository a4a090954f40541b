"""What `status` tells of a run that is at work, was preempted, or is damaged."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.reading.golden import same_as_golden
from tests.reading.runs import publish, snapshot
from triocollect.__main__ import main
from triocollect.checkpoint.store import Store
from triocollect.collector.identity import input_digest
from triocollect.protocol.files import RunFile
from triocollect.protocol.ids import EpisodeId
from triocollect.reading.places import places
from triocollect.reading.run_status import run_status_of
from triocollect.rows.numbers import TaskNumbers

WRITTEN = "when last written down"
NOW = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)


def told(path="."):
    return run_status_of(places(Path(path)))


def test_people_read_where_the_run_stands_and_what_a_restart_does(folder):
    assert told().text(NOW).splitlines() == [
        "out.jsonl",
        "  rows       6 expected = 2 succeeded + 1 failed + 3 left",
        "  failed     agent_run_error 1; 0 not to be tried again",
        "ckpt",
        "  collector  nobody is at work; the last was process 4711 on n1, since 2026-01-02T03:00:00+00:00",
        "  LATEST     c-000002-00000002",
        f"  in flight  3 rows {WRITTEN}; the same command continues 1 and starts 2 from the input",
        "             4-0, attempt 0, from its input: resources sql cannot capture it",
        "             5-0, attempt 0, from its input: it was sent after that checkpoint, or refused by it",
        "  published  c-000001-00000001, 4 min ago: 1 row with 30 s of work, 0 left out, 128 bytes",
        "  published  c-000002-00000002, 3 min ago: 1 row with 60 s of work, 1 left out, 128 bytes",
        "  in vain    c-000003-00000003, 2 min ago: agent waits for 5-0 (in a tool)",
    ]


def test_programs_read_the_same_as_ever(folder):
    assert same_as_golden("status", told().as_json())


@pytest.mark.parametrize("path", [".", "out.jsonl", "ckpt"])
def test_either_half_tells_the_whole_and_nothing_is_changed_by_looking(folder, path, capsys):
    before = snapshot(folder)
    assert main(["status", path, "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert (run["output"]["left"], run["checkpoints"]["restart"]["continues"][0]["becomes"]) == (3, 2)
    assert snapshot(folder) == before


def test_a_finished_row_is_not_in_flight_whatever_the_log_says(folder):
    with (folder / "out.jsonl").open("ab") as output:
        output.write(b'{"_ng_task_index":3,"_ng_rollout_index":0,"_ng_attempt_index":1,"reward":1}\n')
    [run] = told().runs
    assert run.checkpoints.restart.continues == ()


def test_a_collector_at_work_is_seen_without_being_disturbed(folder):
    hold = "import fcntl, sys; f = open('ckpt/collector.lock', 'r+'); fcntl.flock(f, 2); "
    hold += "print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
    ) as holder:
        holder.stdout.readline()
        found = told().runs[0].checkpoints.collector
        assert (found.at_work, found.pid) == ("yes", holder.pid)
        holder.stdin.close()
    assert told().runs[0].checkpoints.collector.at_work == "no"


def test_whether_a_collector_on_another_host_lives_is_not_guessed(folder):
    (folder / "ckpt" / "collector.pid").write_text("4711\n")
    [run] = told().runs
    assert run.checkpoints.collector.at_work == "unknown"
    assert "only that host can tell" in told().text(NOW)


def test_the_checkpoint_that_a_restart_falls_back_to_is_the_one_that_is_told(folder, capsys):
    (folder / "ckpt" / "ckpt-000002" / "collection.json").write_bytes(b"{}")
    assert main(["status", "."]) == 4
    said = capsys.readouterr().out
    assert "LATEST     c-000001-00000001" in said
    assert "ckpt-000002 was passed over: ckpt-000002/collection.json is not the one that LATEST names" in said


def test_a_checkpoint_of_another_output_in_the_same_directory_is_called_that_and_is_no_damage(folder, capsys):
    publish(Store(folder / "ckpt"), EpisodeId("5-0"), output="r2")
    assert main(["status", "."]) == 0
    said = capsys.readouterr().out
    assert "LATEST     c-000002-00000002" in said
    assert "beside     ckpt-000003: a checkpoint of another output" in said


@pytest.mark.parametrize(
    ("damage", "words", "code"),
    [
        (lambda here: (here / "ckpt/LATEST").write_bytes(b""), "LATEST was passed over: it is empty", 4),
        (lambda here: (here / "ckpt/LATEST").unlink(), "LATEST     no checkpoint", 0),
        (lambda here: (here / "ckpt/collector.lock").write_bytes(b"\0"), "collector.lock is damaged", 4),
        (lambda here: shutil.rmtree(here / "ckpt/ckpt-000002"), "ckpt-000002 is not there", 4),
        (lambda here: (here / "ckpt/outcomes.jsonl").write_bytes(b"\xff\n"), "in flight  3 rows", 0),
        (lambda here: (here / "ckpt/dispatched.jsonl").write_bytes(b"no\n"), "dispatched.jsonl, line 1", 4),
        (lambda here: (here / "out_run.json").write_bytes(b"{"), "out_run.json is damaged", 4),
        (lambda here: (here / "out.jsonl").write_bytes(b"\0\0\n"), "out.jsonl, line 1 (byte 0)", 4),
        (lambda here: (here / "out_materialized_inputs.jsonl").write_bytes(b"x"), "line 1 (byte 0)", 4),
        (lambda here: os.mkfifo(here / "ckpt/.LATEST.tmp"), "in flight  3 rows", 0),
    ],
)  # fmt: skip
def test_damage_is_a_line_and_never_the_end_of_the_program(folder, capsys, damage, words, code):
    damage(folder)
    for path in (".", "ckpt"):
        assert main(["status", path]) in {0, 4}
        assert "internal error" not in capsys.readouterr().err
    assert main(["status", "."]) == code
    assert words in capsys.readouterr().out


def test_a_directory_whose_output_is_lost_tells_what_it_can(folder, capsys):
    for file in folder.glob("out*"):
        file.unlink()
    assert main(["status", "ckpt"]) == 0
    said = capsys.readouterr().out
    assert "LATEST     c-000002-00000002" in said
    assert "in flight" not in said
    assert "no output near it was collected with it" in said


@pytest.mark.parametrize(("own", "told"), [(True, False), (False, True), (msgspec.UNSET, False)])
def test_servers_that_are_not_the_runs_own_have_to_be_started_anew(folder, capsys, own, told):
    run_file = msgspec.json.decode((folder / "out_run.json").read_bytes(), type=RunFile)
    replaced = msgspec.structs.replace(run_file, own_servers=own)
    (folder / "out_run.json").write_bytes(msgspec.json.encode(replaced))
    assert main(["status", "."]) == 0
    assert ("continued on servers that were started anew" in capsys.readouterr().out) is told


def test_an_input_that_holds_other_rows_now_is_told_before_the_same_command_is_refused(folder, capsys):
    (folder / "in.jsonl").write_text('{"n":1}\n{"n":2}\n')
    numbers = TaskNumbers(gym=False)
    for line in (b'{"n":1}\n', b'{"n":2}\n'):
        numbers.digest(line)
    run_file = msgspec.json.decode((folder / "out_run.json").read_bytes(), type=RunFile)
    replaced = msgspec.structs.replace(
        run_file,
        created="2026-01-02T03:00:00+00:00",
        fields={"input": input_digest(numbers.of_all, gym=False)},
        values={"input": str(folder / "in.jsonl")},
    )
    (folder / "out_run.json").write_bytes(msgspec.json.encode(replaced))
    words = f"its input {folder / 'in.jsonl'} holds other rows than when the run began"
    assert main(["status", "."]) == 0
    assert words not in capsys.readouterr().out
    (folder / "in.jsonl").write_text('{"n":1}\n{"n":3}\n')
    assert main(["status", "."]) == 0
    assert words in capsys.readouterr().out
    (folder / "in.jsonl").unlink()
    assert main(["status", "."]) == 0
    assert words not in capsys.readouterr().out


def test_a_checkpoint_directory_far_away_is_found_where_the_run_had_it(folder, tmp_path_factory, capsys):
    far = tmp_path_factory.mktemp("far") / "ckpt"
    (folder / "ckpt").rename(far)
    run_file = msgspec.json.decode((folder / "out_run.json").read_bytes(), type=RunFile)
    replaced = msgspec.structs.replace(run_file, checkpoint_dir=str(far))
    (folder / "out_run.json").write_bytes(msgspec.json.encode(replaced))
    assert main(["status", "."]) == 0
    assert f"{far}\n" in capsys.readouterr().out
    far.rename(far.with_name("elsewhere"))
    assert main(["status", "."]) == 0
    assert f"its checkpoint directory is not {far}; --checkpoint-dir names it" in capsys.readouterr().out
