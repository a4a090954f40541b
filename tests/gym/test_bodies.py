"""The bytes of /run."""

from msgspec import Raw

from tests.gym.rows_of import a_row, a_task
from tests.gym.stub import body_of
from triocollect.gym.bodies import run_body, taskset_of
from triocollect.rows.types import parse_row


def test_a_flat_rows_first_body_is_its_line_and_not_a_copy() -> None:
    row = parse_row(body_of("run_flat.request"))
    assert run_body(row, 0) is row.line


def test_a_later_attempt_names_itself_last() -> None:
    row = parse_row(body_of("run_flat.request"))
    assert run_body(row, 2) == row.line[:-1] + b',"_ng_attempt_index":2}'


def test_a_later_attempt_takes_the_place_of_an_attempt_in_the_data() -> None:
    row = a_row(_ng_attempt_index=7, ratio=1.0, name="é")
    expected = '{"_ng_attempt_index":1,"ratio":1.0,"name":"é","_ng_task_index":0,"_ng_rollout_index":0}'
    assert run_body(row, 1) == expected.encode()


def test_a_saved_deliverable_is_named_after_the_attempt() -> None:
    body = run_body(a_row(), 1, reuse_cached_deliverable=Raw(b"true"))
    assert body.endswith(b',"_ng_attempt_index":1,"reuse_cached_deliverable":true}')


def test_numbers_that_no_float_holds_survive_a_retry() -> None:
    line = b'{"n":123456789012345678901234567890,"x":1e400,"_ng_task_index":0,"_ng_rollout_index":0}'
    assert run_body(parse_row(line), 1) == line[:-1] + b',"_ng_attempt_index":1}'


def test_a_task_goes_out_as_an_episode_without_the_rest_of_the_row() -> None:
    line = (
        b'{"task_id":{"taskset":"weather","task_id":"w0"},"task_input":{"responses_create_params":{"input":"q0"},'
        b'"task_data":{"a":0}},"extra":1,"_ng_task_index":0,"_ng_environment_server":"e","_ng_rollout_index":0}'
    )
    assert run_body(parse_row(line), 0) == body_of("episode.request")
    assert b'"episode_id":{"rollout_id":"0-0","attempt":3}' in run_body(parse_row(line), 3)


def test_an_explicit_rollout_id_names_the_episode_without_an_attempt_suffix() -> None:
    body = run_body(a_task(_ng_rollout_id="mine"), 2)
    assert body.startswith(b'{"episode_id":{"rollout_id":"mine","attempt":2},')


def test_only_a_task_with_a_taskset_is_an_episode() -> None:
    assert taskset_of(a_task()) == "weather"
    for row in (
        a_task(taskset=""),
        a_task(taskset=None),
        a_row(task_id="w0", task_input={}),
        a_row(task_id={}),
    ):
        assert taskset_of(row) is None
        assert run_body(row, 0) is row.line
