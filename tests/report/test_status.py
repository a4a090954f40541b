"""How a run stands, from its files alone."""

import json
from pathlib import Path

import msgspec
import pytest

from triocollect.errors import UsageError
from triocollect.protocol.files import RunFile
from triocollect.report.status import status


def result(task: int, **more: object) -> bytes:
    return (
        json.dumps({"reward": 1.0, "_ng_task_index": task, "_ng_rollout_index": 0, **more}).encode() + b"\n"
    )


def failure(task: int, failure_class: str, **more: object) -> bytes:
    fields = {"_ng_failure_class": failure_class, "_ng_task_index": task, "_ng_rollout_index": 0}
    return json.dumps(fields | more).encode() + b"\n"


def run_file(rows: int) -> bytes:
    return msgspec.json.encode(
        RunFile(run="r1", created="2026-11-30T00:00:00Z", rows=rows, rows_sha256="", fields={})
    )


def materialized(output: Path, rows: int) -> None:
    lines = (b'{"_ng_task_index":%d,"_ng_rollout_index":0}\n' % task for task in range(rows))
    output.with_name("rollouts_materialized_inputs.jsonl").write_bytes(b"".join(lines))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(result(0) + result(1, _ng_attempt_index=1))
    (tmp_path / "rollouts_failures.jsonl").write_bytes(
        failure(1, "agent_run_error")
        + failure(2, "agent_request_failed")
        + failure(2, "agent_run_error", _ng_attempt_index=1, _ng_failure_message="HTTP 500 from http://h")
        + failure(3, "skipped", _ng_failure_terminal=True)
    )
    (tmp_path / "rollouts_run.json").write_bytes(run_file(10))
    return path


def test_it_adds_up(output: Path) -> None:
    [found] = status(output).outputs
    assert (found.expected, found.succeeded, found.failed, found.left) == (10, 2, 2, 6)
    assert dict(found.failures_by_class) == {"agent_run_error": 1, "skipped": 1}
    assert found.terminal == 1
    assert dict(found.attempts) == {0: 2, 1: 2}


def test_people_read_it_as_text(output: Path) -> None:
    text = status(output).text()
    assert "10 expected = 2 succeeded + 2 failed + 6 left" in text
    assert "agent_run_error 1, skipped 1; 1 not to be tried again" in text
    assert "             agent_run_error, for example: HTTP 500 from http://h\n" in text
    assert "0: 2 rows, 1: 2 rows" in text


def test_programs_read_it_as_json(output: Path) -> None:
    [found] = json.loads(status(output).as_json())["outputs"]
    assert (found["left"], found["failures_by_class"]["skipped"]) == (6, 1)


def test_an_output_of_gym_s_is_measured_by_its_materialised_file(output: Path) -> None:
    output.with_name("rollouts_run.json").unlink()
    materialized(output, 5)
    [found] = status(output).outputs
    assert (found.expected, found.left) == (5, 1)


def test_rows_that_the_data_set_does_not_have_are_told_apart(output: Path) -> None:
    materialized(output, 10)
    with output.open("ab") as file:
        file.write(result(99))
    output.with_name("rollouts_failures.jsonl").write_bytes(failure(98, "skipped"))
    [found] = status(output).outputs
    assert (found.expected, found.succeeded, found.failed, found.left, found.unknown) == (10, 2, 0, 8, 2)
    assert "2 rows that the data set does not have" in status(output).text()


def test_a_number_of_rows_that_cannot_be_is_not_believed(output: Path) -> None:
    output.with_name("rollouts_run.json").write_bytes(run_file(3))
    [found] = status(output).outputs
    assert (found.expected, found.succeeded, found.failed, found.left) == (None, 2, 2, None)


def test_a_damaged_run_file_is_no_obstacle(output: Path) -> None:
    output.with_name("rollouts_run.json").write_bytes(b'{"run": "r1", "ro')
    [found] = status(output).outputs
    assert (found.expected, found.left) == (None, None)
    assert "how many are expected is unknown" in status(output).text()


def test_damage_and_torn_tails_are_told(output: Path) -> None:
    whole = output.stat().st_size
    with output.open("ab") as file:
        file.write(b"\0\0\0\n" + result(0) + b'{"rew')
    [found] = status(output).outputs
    assert (found.damaged, found.duplicates, found.succeeded) == (1, 1, 2)
    assert found.tails[str(output)] == "torn"
    text = status(output).text()
    assert f"{output}, line 3 (byte {whole})" in text
    assert "a resumed run cuts it off and keeps it" in text


def test_a_folder_is_asked_about_all_its_outputs(output: Path) -> None:
    (output.parent / "other_run.json").write_bytes(run_file(3))
    found = status(output.parent).outputs
    assert [Path(each.output).name for each in found] == ["other.jsonl", "rollouts.jsonl"]
    assert found[0].left == 3


def test_metrics_that_were_written_beside_a_run_are_no_output_of_their_own(output: Path) -> None:
    (output.parent / "both_aggregate_metrics.json").write_text("[]")
    (output.parent / "rollouts_aggregate_metrics.json").write_text("[]")
    assert {Path(each.output).name for each in status(output.parent).outputs} == {"rollouts.jsonl"}


def test_of_a_finished_run_nothing_is_left(output: Path) -> None:
    output.with_name("rollouts_run.json").write_bytes(run_file(4))
    assert status(output).outputs[0].left == 0


def test_nothing_is_changed_by_looking(output: Path) -> None:
    before = {path.name: path.read_bytes() for path in output.parent.iterdir()}
    status(output.parent)
    assert {path.name: path.read_bytes() for path in output.parent.iterdir()} == before


def test_where_there_is_no_run_the_user_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no output of a run"):
        status(tmp_path)


def test_only_attempts_that_some_row_stands_at_are_listed(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(result(0, _ng_attempt_index=2))
    assert dict(status(output).outputs[0].attempts) == {2: 1}
