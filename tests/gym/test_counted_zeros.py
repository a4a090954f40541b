"""Rows without a result that metrics count all the same."""

import msgspec

from triocollect.gym.counted_zeros import (
    carried_fields,
    fill_task_fields,
    zeros_of_failures,
    zeros_of_missing,
)
from triocollect.protocol.ids import RowKey


def a_line(task: int, **fields: object) -> bytes:
    return msgspec.json.encode({"_ng_task_index": task, "_ng_rollout_index": 0} | fields)


def text(fields: object) -> str:
    return msgspec.json.encode(fields).decode()


def test_a_failure_counts_as_zero_without_its_diagnoses() -> None:
    failure = a_line(
        0,
        _ng_failure_class="agent_run_error",
        _ng_failure_http_status=500,
        failure_kind="k",
        failure_reason="r",
        mask_sample=True,
        agent_ref={"name": "a"},
    )
    zeros = zeros_of_failures([failure], {"agent_run_error"}, set())
    assert text(zeros[RowKey(0, 0)]) == (
        '{"_ng_task_index":0,"_ng_rollout_index":0,"mask_sample":false,"agent_ref":{"name":"a"},"reward":0.0}'
    )


def test_a_failure_with_a_reward_keeps_it() -> None:
    zeros = zeros_of_failures(
        [a_line(0, _ng_failure_class="timeout_exceeded", reward=0.25)], {"timeout_exceeded"}, ()
    )
    assert text(zeros[RowKey(0, 0)]["reward"]) == "0.25"


def test_the_last_failure_of_a_row_decides_and_a_success_outweighs_it() -> None:
    sidecar = [
        a_line(0, _ng_failure_class="counted"),
        a_line(0, _ng_failure_class="other"),
        a_line(1, _ng_failure_class="other"),
        a_line(1, _ng_failure_class="counted"),
        a_line(2, _ng_failure_class="counted"),
        b'{"_ng_failure_class":"counted"}',
    ]
    assert set(zeros_of_failures(sidecar, {"counted"}, {RowKey(2, 0)})) == {RowKey(1, 0)}


def test_a_row_that_left_no_line_counts_as_zero() -> None:
    rows = [
        a_line(0, agent_ref={"name": "a"}),
        a_line(1, agent_ref={"name": "a"}),
        a_line(2, _ng_environment_server="e", extra=1),
        a_line(3),
    ]
    zeros = zeros_of_missing(rows, {RowKey(0, 0)})
    assert [text(zero) for zero in zeros.values()] == [
        '{"_ng_task_index":1,"_ng_rollout_index":0,"agent_ref":{"name":"a"},"reward":0.0}',
        '{"_ng_task_index":2,"_ng_rollout_index":0,"agent_ref":null,"reward":0.0,"_ng_environment_server":"e"}',
    ]


def test_a_zero_gets_the_fields_that_real_records_of_its_agent_carry() -> None:
    rows = [
        a_line(
            0,
            agent_ref={"name": "a"},
            subset="hard",
            _note=1,
            weight=2,
            response={},
            responses_create_params={},
        ),
        a_line(1, agent_ref={"name": "b"}, subset="easy"),
    ]
    output = [
        a_line(
            9, agent_ref={"name": "a"}, subset="x", _note=1, reward=1, response={}, responses_create_params={}
        )
    ]
    zeros = zeros_of_missing(rows, ())
    fill_task_fields(zeros, carried_fields(output), rows)
    assert text(zeros[RowKey(0, 0)]).endswith('"reward":0.0,"subset":"hard"}')
    assert "subset" not in zeros[RowKey(1, 0)]
