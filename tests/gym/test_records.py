"""What is written for a row."""

import msgspec
import pytest
from msgspec import Raw

from tests.gym.rows_of import a_row, a_task
from tests.gym.stub import body_of
from triocollect.gym.episodes import unwrap_episode
from triocollect.gym.records import encode_record, failure_class_of_status, failure_record, place, stamp
from triocollect.gym.routing import Target
from triocollect.rows.types import Row, parse_row

ENVIRONMENT = Target("http://h:1", "stub_env", "legacy_agent")


def fields_of(body: bytes) -> dict[str, Raw]:
    return msgspec.json.decode(body, type=dict[str, Raw])


def stamped(body: bytes, row: Row, attempt: int = 0, target: Target = ENVIRONMENT) -> str:
    fields = fields_of(body)
    stamp(fields, row, attempt, target)
    return encode_record(fields).decode()


def test_a_flat_record_is_the_reply_and_then_the_stamps() -> None:
    row = parse_row(body_of("run_flat.request"))
    target = Target("http://127.0.0.1:11103", "example_single_tool_call_environment_server", "legacy_agent")
    assert stamped(body_of("run_flat"), row, target=target).endswith(
        '"reward":1.0,"mask_sample":false,"failure_kind":null,"failure_reason":null,"_ng_task_index":0,'
        '"_ng_rollout_index":0,"agent_ref":{"name":"example_single_tool_call_simple_agent"},'
        '"_ng_environment_server":"example_single_tool_call_environment_server","_ng_result_type":"legacy_agent"}\n'
    )


def test_every_stamp_has_its_place_in_the_order() -> None:
    row = a_row(
        skills_ref={"hash": "x"},
        _ng_rollout_id="mine",
        task_source="quiz",
        agent_ref={"name": "a", "type": "t"},
    )
    assert stamped(b'{"reward":1}', row, attempt=2) == (
        '{"reward":1,"_ng_task_index":0,"_ng_rollout_index":0,"agent_ref":{"name":"a","type":"t"},'
        '"task_source":"quiz","skills_ref":{"hash":"x"},"_ng_attempt_index":2,"_ng_rollout_id":"mine",'
        '"_ng_environment_server":"stub_env","_ng_result_type":"legacy_agent"}\n'
    )


def test_a_stamp_replaces_what_the_server_sent_where_it_stands() -> None:
    body = b'{"_ng_rollout_index":9,"reward":0.5,"agent_ref":{"name":"liar"},"_ng_result_type":"x"}'
    assert stamped(body, a_row(agent_ref={"name": "a"})) == (
        '{"_ng_rollout_index":0,"reward":0.5,"agent_ref":{"name":"a"},"_ng_result_type":"legacy_agent",'
        '"_ng_task_index":0,"_ng_environment_server":"stub_env"}\n'
    )


def test_what_only_the_server_knows_stays() -> None:
    body = b'{"_ng_rollout_id":"theirs","_ng_attempt_index":4,"agent_ref":{"name":"a"}}'
    assert stamped(body, a_row(), target=Target("http://h:1")) == (
        '{"_ng_rollout_id":"theirs","_ng_attempt_index":4,"agent_ref":{"name":"a"},"_ng_task_index":0,'
        '"_ng_rollout_index":0}\n'
    )


def test_a_result_without_observations_gains_gyms_empty_trajectory_at_its_end() -> None:
    row = a_task()
    fields = unwrap_episode(row, fields_of(body_of("episode_success"))).fields
    stamp(fields, row, 0, Target("http://h:1", "w_env", "single_agent_turn"))
    record = encode_record(fields).decode()
    assert record.endswith(
        '"ng_agent_observations":null,"_ng_task_id":{"taskset":"weather","task_id":"w0"},'
        '"_ng_task_index":0,"_ng_rollout_index":0,"_ng_environment_server":"w_env",'
        '"_ng_result_type":"single_agent_turn",'
        '"ng_trajectory":{"schema_version":"1.0","task_id":"{\'taskset\': \'weather\', \'task_id\': \'w0\'}",'
        '"rollout_id":"0-0","invocations":[],"turns":[],"model_calls":[],"tool_calls":[],"gaps":['
        '{"code":"model_calls_unavailable","invocation_id":null,"detail":null},'
        '{"code":"turns_unavailable","invocation_id":null,"detail":null},'
        '{"code":"conversation_unavailable","invocation_id":null,"detail":null}]}}\n'
    )


@pytest.mark.parametrize(
    ("row", "attempt", "names"),
    [
        (a_row(), 0, '"task_id":"0","rollout_id":"0-0"'),
        (a_row(instance_id=7, task_id=None), 1, '"task_id":"7","rollout_id":"0-0-a1"'),
        (a_row(instance_id="i", problem_id="p", _ng_rollout_id="r"), 0, '"task_id":"p","rollout_id":"r"'),
    ],
)
def test_the_empty_trajectory_is_named_after_the_row(row: Row, attempt: int, names: str) -> None:
    assert names in stamped(b'{"ng_agent_observations":null}', row, attempt)


@pytest.mark.parametrize(
    "body",
    [
        b'{"reward":1.0}',
        b'{"ng_agent_observations":{"records":[]}}',
        b'{"ng_agent_observations":null,"ng_model_call_capture":{}}',
    ],
)
def test_no_trajectory_is_made_up_where_none_is_asked_for(body: bytes) -> None:
    assert "ng_trajectory" not in stamped(body, a_row())


def test_a_trajectory_that_the_server_sent_passes_as_it_is() -> None:
    body = b'{"ng_agent_observations":null,"ng_trajectory":{"turns":[1]}}'
    assert '"ng_trajectory":{"turns":[1]}' in stamped(body, a_row())


def test_a_record_is_one_line_and_its_values_are_as_they_came() -> None:
    body = b'{"a" : [1,\n 1e400, 12345678901234567890123],\r\n"b":"x\\ny","c":"\xe2\x80\xa8"}'
    assert encode_record(fields_of(body)) == (
        b'{"a":[1,1e400,12345678901234567890123],"b":"x\\ny","c":"\xe2\x80\xa8"}\n'
    )


def test_a_lone_carriage_return_ends_a_line_for_text_readers_and_goes() -> None:
    assert encode_record(fields_of(b'{"a":[1,\r2]}')) == b'{"a":[1,2]}\n'


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"reward":1.0}', "output"),
        (b'{"_ng_failure_class":null}', "output"),
        (b'{"_ng_failure_class":"judge_invalid","reward":0}', "sidecar"),
        (b'{"_ng_failure_class":"x","_ng_no_persist":true}', "nothing"),
        (b'{"_ng_failure_class":"x","_ng_no_persist":false}', "sidecar"),
        (b'{"_ng_no_persist":0}', "output"),
    ],
)
def test_not_persisting_beats_a_failure_and_a_failure_beats_success(body: bytes, where: str) -> None:
    assert place(fields_of(body)) == where


@pytest.mark.parametrize("status", [200, 400, 401, 404, 408, 409, 422, 500, 501, 505])
def test_a_status_of_the_server_itself_means_that_the_rollout_ran_and_broke(status: int) -> None:
    assert failure_class_of_status(status) == "agent_run_error"


@pytest.mark.parametrize("status", [None, 429, 502, 503, 504])
def test_a_gateways_status_or_none_means_that_it_may_not_have_run(status: int | None) -> None:
    assert failure_class_of_status(status) == "agent_request_failed"


def test_a_failed_request_is_a_sidecar_record_in_gyms_order() -> None:
    row = parse_row(b'{"agent_ref":{"name":"stub_agent"},"_ng_task_index":1,"_ng_rollout_index":0}')
    fields = failure_record(kind="HTTPStatusError", message="answered 500", status=500, body=b"kaboom")
    stamp(fields, row, 1, ENVIRONMENT)
    assert encode_record(fields).decode() == (
        '{"_ng_failure_class":"agent_run_error","_ng_failure_type":"HTTPStatusError",'
        '"_ng_failure_message":"answered 500","_ng_failure_http_status":500,'
        '"_ng_failure_response_body":"kaboom","_ng_task_index":1,"_ng_rollout_index":0,"agent_ref":{"name":"stub_agent"},"_ng_attempt_index":1,'
        '"_ng_environment_server":"stub_env","_ng_result_type":"legacy_agent"}\n'
    )


def test_a_request_without_a_reply_has_neither_status_nor_body() -> None:
    record = encode_record(failure_record(kind="ReplyLostError", message="\udcff", status=None))
    assert record == (
        b'{"_ng_failure_class":"agent_request_failed","_ng_failure_type":"ReplyLostError",'
        b'"_ng_failure_message":"?","_ng_failure_http_status":null,"_ng_failure_response_body":null}\n'
    )


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"x" * 2000, "x" * 2000),
        (b"x" * 2001, "x" * 2000 + "…"),
        ("é".encode() * 1500, "é" * 1500),
        ("🙂".encode() * 3000, "🙂" * 2000 + "…"),
        (b"\xff", "�"),
    ],
)
def test_of_an_error_body_two_thousand_characters_are_kept(body: bytes, kept: str) -> None:
    fields = failure_record(kind="HTTPStatusError", message="m", status=500, body=body)
    assert msgspec.json.decode(fields["_ng_failure_response_body"]) == kept
