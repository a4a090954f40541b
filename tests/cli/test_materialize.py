"""`materialize`, `status` and `aggregate` on files."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from tests.reading.golden import same_as_golden
from triocollect.__main__ import main

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = {"responses_create_params": {"input": "x"}, "agent_ref": {"name": "a"}}
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row | {"n": n}) + "\n" for n in range(3)))
    (tmp_path / "gym.json").write_text('{"num_repeats": 2, "agent_map": {"a": "b"}}')
    return tmp_path


def materialize(*tokens):
    return main(["materialize", "-i", "rows.jsonl", "-o", "out.jsonl", *tokens])


def test_the_rows_are_expanded_as_gyms_own_names_say(folder, capsys):
    assert materialize("--config", "gym.json") == 0
    rows = [json.loads(line) for line in (folder / "out_materialized_inputs.jsonl").read_text().splitlines()]
    assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip
    assert {row["agent_ref"]["name"] for row in rows} == {"b"}
    assert "Materialized 6 rows: out_materialized_inputs.jsonl" in capsys.readouterr().out
    assert not (folder / "out.jsonl").exists()


def test_a_dry_run_expands_and_changes_nothing(folder, capsys):
    before = sorted(folder.iterdir())
    assert materialize("--config", "gym.json", "--dry-run") == 0
    assert "Would materialize 6 rows: out_materialized_inputs.jsonl" in capsys.readouterr().out
    assert sorted(folder.iterdir()) == before


def test_what_was_written_is_one_json_object_for_programs(capsys):
    assert materialize("--json", "-r", "2") == 0
    told = capsys.readouterr()
    assert same_as_golden("materialize", told.out, GOLDEN)
    assert "Materialized 6 rows: out_materialized_inputs.jsonl" in told.err


def test_rows_that_results_belong_to_are_not_replaced_by_other_rows(folder, capsys):
    assert materialize() == 0
    before = (folder / "out_materialized_inputs.jsonl").read_bytes()
    (folder / "out.jsonl").write_text("{}\n")
    assert materialize() == 0
    assert materialize("-r", "2") == 4
    assert (folder / "out_materialized_inputs.jsonl").read_bytes() == before
    assert "has results of other rows" in capsys.readouterr().err
    assert materialize("-r", "2", "--overwrite") == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "gym.json", "out.jsonl", "out_materialized_inputs.jsonl", "rows.jsonl",
    ]  # fmt: skip


def test_the_rows_of_a_collector_at_work_are_left_to_it(folder, capsys):
    with (folder / "out.jsonl").open("ab") as output:
        fcntl.flock(output, fcntl.LOCK_EX)
        assert materialize() == 4
    told = capsys.readouterr().err
    assert f"out.jsonl is being written by another collector, process {os.getpid()}" in told
    assert not list(folder.glob("*materialized*"))
    assert not list(folder.glob(".*"))


def test_a_place_that_cannot_be_made_is_told_in_one_line(capsys):
    output = f"{'x' * 300}/out.jsonl"
    assert main(["materialize", "-i", "rows.jsonl", "-o", output]) == 2
    told = capsys.readouterr().err
    assert output in told
    assert "internal error" not in told


def test_status_and_aggregate_read_the_files_of_a_run(folder, capsys):
    assert materialize() == 0
    capsys.readouterr()
    record = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "a"}, "reward": 1.0}
    (folder / "out.jsonl").write_text(json.dumps(record) + "\n")
    assert main(["status", "out.jsonl", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    output = run["output"]
    assert (output["expected"], output["succeeded"], output["left"]) == (3, 1, 2)
    assert main(["aggregate", "out.jsonl", "-o", "all.jsonl", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rollouts"] == 1
    assert "all_aggregate_metrics.json" in captured.err
    assert (folder / "all_aggregate_metrics.json").exists()


def test_what_is_no_output_at_all_is_not_told_as_one_without_results(folder, capsys):
    assert main(["aggregate", "rows.jsonl"]) == 4
    told = capsys.readouterr().out
    assert "No results." in told
    assert "Damaged: " in told


@pytest.mark.parametrize("command", ["status", "aggregate"])
def test_where_there_is_no_output_that_is_said(command, capsys):
    assert main([command, "nowhere.jsonl"]) == 2
    assert "nowhere.jsonl" in capsys.readouterr().err
