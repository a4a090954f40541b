"""Metrics over files that earlier runs left, in any state."""

import json
from pathlib import Path

import pytest

from triocollect.errors import RefusedError, UsageError
from triocollect.report.aggregate import aggregate_outputs


def record(task: int, rollout: int, reward: float, **more: object) -> bytes:
    fields = {
        "responses_create_params": {"input": "x" * 50},
        "response": {
            "output": [{"text": "long " * 20}],
            "usage": {"input_tokens": 20, "output_tokens": task},
        },
        "reward": reward,
        "mask_sample": False,
        "failure_kind": None,
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "agent_ref": {"name": "solver"},
        "_ng_environment_server": "solver_env",
    }
    return json.dumps(fields | more).encode() + b"\n"


def test_the_file_is_laid_out_as_gym_s(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(record(0, 0, 1.0) + record(0, 1, 0.0))
    written = aggregate_outputs([output]).write()
    assert written == tmp_path / "rollouts_aggregate_metrics.json"
    text = written.read_text()
    assert text.startswith('[\n  {\n    "agent_ref": {\n      "name": "solver"\n    },\n')
    assert not text.endswith("\n")
    [entry] = json.loads(text)
    assert list(entry) == [
        "agent_ref",
        "_ng_environment_server",
        "agent_metrics",
        "key_metrics",
        "group_level_metrics",
        "repeat_level_metrics",
    ]
    assert entry["key_metrics"] == {"mean/reward": 0.5, "mean/input_tokens": 20.0, "mean/output_tokens": 0.0}
    assert entry["agent_metrics"]["num_repeats"] == 2
    assert entry["group_level_metrics"][0]["rollout_infos"][1]["reward"] == 0.0


def test_the_file_can_be_put_beside_another_output(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(record(0, 0, 1.0))
    aggregate_outputs([tmp_path / "a.jsonl"]).write(tmp_path / "all.jsonl")
    assert (tmp_path / "all_aggregate_metrics.json").exists()


def test_damage_is_named_by_line_and_byte_and_the_rest_counts(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    first = record(0, 0, 1.0)
    output.write_bytes(first + b'{"reward": 1.0, "_ng_task\n' + b"\n" + record(1, 0, 0.0) + b'{"reward": 0')
    aggregated = aggregate_outputs([output])
    assert aggregated.rollouts == 2
    said = aggregated.tables()
    assert f"Damaged: {output}, line 2 (byte {len(first)})" in said
    assert f"Torn: {output}, line 5 (byte " in said


def test_a_last_line_that_lacks_only_its_newline_counts(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(record(0, 0, 1.0) + record(1, 0, 0.0).rstrip())
    aggregated = aggregate_outputs([output])
    assert aggregated.rollouts == 2
    assert "Torn" not in aggregated.tables()


def test_the_first_result_of_a_row_counts_and_later_ones_are_reported(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(record(0, 0, 1.0) + record(0, 0, 0.0))
    aggregated = aggregate_outputs([output])
    assert aggregated.summaries[0].mean == 1.0
    assert f"Repeated: {output}, line 2" in aggregated.tables()


def test_a_failure_among_the_results_is_no_result(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(
        record(0, 0, 1.0)
        + b'{"_ng_task_index":1,"_ng_rollout_index":0,"_ng_failure_class":"skipped","reward":0.0}\n'
    )
    aggregated = aggregate_outputs([output])
    assert aggregated.rollouts == 1
    assert f"Not a result: {output}, line 2" in aggregated.tables()


def test_shards_are_merged_and_their_companions_skipped(tmp_path: Path) -> None:
    for shard, task in (("a", 0), ("b", 1)):
        (tmp_path / f"{shard}.jsonl").write_bytes(record(task, 0, float(task)))
        (tmp_path / f"{shard}_failures.jsonl").write_bytes(b"{}\n")
        (tmp_path / f"{shard}_materialized_inputs.jsonl").write_bytes(b'{"x":1}\n' * 2)
    aggregated = aggregate_outputs(sorted(tmp_path.glob("*.jsonl")))
    assert (aggregated.rollouts, aggregated.expected) == (2, 4)
    assert [output.path.name for output in aggregated.outputs] == ["a.jsonl", "b.jsonl"]
    assert aggregated.summaries[0].mean == 0.5


def test_a_folder_stands_for_the_outputs_in_it(tmp_path: Path) -> None:
    (tmp_path / "rollouts.jsonl").write_bytes(record(0, 0, 1.0))
    (tmp_path / "rollouts_failures.jsonl").touch()
    (tmp_path / "input.jsonl").write_bytes(b'{"question": 1}\n')
    assert [output.path.name for output in aggregate_outputs([tmp_path]).outputs] == ["rollouts.jsonl"]


def test_two_runs_of_the_same_rows_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(record(0, 0, 1.0) + record(1, 0, 1.0) + record(2, 0, 1.0))
    (tmp_path / "b.jsonl").write_bytes(record(2, 0, 0.0) + record(1, 0, 0.0))
    with pytest.raises(RefusedError, match=r"a\.jsonl and .*b\.jsonl hold different results .*: 1-0, 2-0\n"):
        aggregate_outputs([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def test_a_row_that_two_shards_share_byte_for_byte_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(record(0, 0, 1.0))
    (tmp_path / "b.jsonl").write_bytes(record(0, 0, 1.0) + record(1, 0, 0.0))
    assert aggregate_outputs([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]).rollouts == 2


def test_runs_on_different_servers_may_number_their_tasks_alike(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(record(0, 0, 1.0))
    (tmp_path / "b.jsonl").write_bytes(
        record(0, 0, 0.0, agent_ref={"name": "player"}, _ng_environment_server="player_env")
    )
    aggregated = aggregate_outputs([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert [(summary.label, summary.mean) for summary in aggregated.summaries] == [
        ("player", 0.0),
        ("solver", 1.0),
    ]


def test_an_agent_behind_two_servers_is_told_apart_by_them(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(record(0, 0, 1.0) + record(1, 0, 0.0, _ng_environment_server="other_env"))
    labels = [
        entry["agent_ref"]["name"] for entry in json.loads(aggregate_outputs([output]).gym_file_bytes())
    ]
    assert labels == ["other_env", "solver_env"]


def test_an_agent_may_be_called_like_another_server(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(
        record(0, 0, 1.0, agent_ref={"name": "b"}, _ng_environment_server="a")
        + record(1, 0, 0.0, agent_ref={"name": "c"}, _ng_environment_server="b")
    )
    assert [summary.label for summary in aggregate_outputs([output]).summaries] == ["b", "c"]


def test_records_of_a_single_server_without_names_are_aggregated_too(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(b'{"reward":1,"_ng_task_index":0,"_ng_rollout_index":0}\n')
    [entry] = json.loads(aggregate_outputs([output]).gym_file_bytes())
    assert "_ng_environment_server" not in entry
    assert entry["key_metrics"] == {"mean/reward": 1.0}


def test_the_table_has_a_line_per_agent_with_interval_and_pass_at_k(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(
        b"".join(record(task, rollout, float(task == rollout)) for task in range(3) for rollout in range(3))
    )
    head, line = aggregate_outputs([output]).tables().splitlines()[:2]
    assert " ".join(head.split()) == "agent tasks rollouts masked unscored mean reward pass@1 pass@2 pass@3"
    assert " ".join(line.split()) == "solver 3 9 0 0 0.333 [0.333, 0.333] 0.333 0.667 1.000"


def test_rows_without_a_result_bound_the_mean(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(record(0, 0, 1.0) + record(1, 0, 0.0))
    (tmp_path / "rollouts_materialized_inputs.jsonl").write_bytes(b'{"x":1}\n' * 4)
    aggregated = aggregate_outputs([output])
    assert aggregated.reward_bounds == (0.25, 0.75)
    assert "Metrics cover: 2 of 4 rollouts" in aggregated.tables()


def test_json_has_what_the_tables_have(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(record(0, 0, 1.0) + b"broken\n")
    said = json.loads(aggregate_outputs([output]).as_json())
    assert said["agents"][0]["mean"] == 1.0
    assert said["agents"][0]["pass_at"] == {"1": 1.0}
    assert said["outputs"] == [
        {"path": str(output), "records": 1, "damaged": 1, "duplicates": 0, "failures": 0, "torn": None}
    ]


def test_an_output_without_results_aggregates_to_nothing(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.touch()
    aggregated = aggregate_outputs([output])
    assert aggregated.gym_file_bytes() == b"[]"
    assert "No results." in aggregated.tables()


def test_a_path_that_is_not_there_is_the_user_s_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        aggregate_outputs([tmp_path / "nowhere.jsonl"])
    with pytest.raises(UsageError, match="no output of a run"):
        aggregate_outputs([tmp_path])


def test_numbers_that_no_float_can_hold_do_not_stop_the_rest(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(
        b'{"reward":1,"_ng_task_index":0,"_ng_rollout_index":0,"big":1e999,"long":' + b"9" * 5000 + b"}\n"
    )
    assert aggregate_outputs([output]).rollouts == 1


def test_rewards_of_any_size_can_be_told(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(record(0, 0, 1e200) + record(1, 0, 0.0))
    found = aggregate_outputs([output])
    assert "5.000e+199" in found.tables()
    assert json.loads(found.as_json())["agents"][0]["interval"] is None
    found.write()
