"""What becomes of an episode's reply."""

import msgspec
import pytest
from msgspec import Raw

from tests.gym.rows_of import a_row, a_task
from tests.gym.stub import body_of
from triocollect.gym.episodes import Unwrapped, unwrap_episode

IDS = b'"episode_id":{"rollout_id":"0-0","attempt":0},"task_id":{"taskset":"weather","task_id":"w0"}'


def fields_of(body: bytes) -> dict[str, Raw]:
    return msgspec.json.decode(body, type=dict[str, Raw])


def text(unwrapped: Unwrapped) -> str:
    return msgspec.json.encode(unwrapped.fields).decode()


def test_a_result_is_the_record_with_the_tasks_id_after_it() -> None:
    unwrapped = unwrap_episode(a_task(), fields_of(body_of("episode_success")))
    assert not unwrapped.failed
    assert list(unwrapped.fields) == [
        "reward",
        "response",
        "reward_components",
        "ng_agent_observations",
        "_ng_task_id",
    ]
    assert bytes(unwrapped.fields["_ng_task_id"]) == b'{"taskset":"weather","task_id":"w0"}'


def test_a_failure_is_a_sidecar_record_in_gyms_order() -> None:
    unwrapped = unwrap_episode(a_task(), fields_of(body_of("episode_failure")))
    assert unwrapped.failed
    assert text(unwrapped) == (
        '{"_ng_task_id":{"taskset":"weather","task_id":"w0"},"_ng_failure_class":"environment_server_failed",'
        '"_ng_failure_terminal":false,"_ng_failure_message":"seed died","_ng_failure_stage":"seed"}'
    )


def test_a_failure_keeps_what_was_said_before_it() -> None:
    failure = b'{"failure_reason":"late","terminal":true,"stage":null,"partial_response":{"output":[]}}'
    unwrapped = unwrap_episode(a_task(), fields_of(b'{%s,"failure":%s}' % (IDS, failure)))
    assert text(unwrapped).endswith(
        '"_ng_failure_terminal":true,"_ng_failure_message":"late","_ng_failure_partial_response":{"output":[]}}'
    )


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        (
            b'"result":{"reward":1.0,"_ng_mine":1,"ng_perf":{},"ng_trajectory":{}}',
            "_ng_mine, ng_perf, ng_trajectory",
        ),
        (b'"result":[1]', "neither a result nor a failure"),
        (b'"result":null,"failure":null', "neither a result nor a failure"),
        (b'"result":{},"failure":"boom"', "a `failure` that is no object"),
    ],
)
def test_a_reply_that_cannot_be_used_is_a_failure_of_its_row_only(rest: bytes, says: str) -> None:
    unwrapped = unwrap_episode(a_task(), fields_of(b"{%s,%s}" % (IDS, rest)))
    assert unwrapped.failed
    assert bytes(unwrapped.fields["_ng_failure_class"]) == b'"environment_server_failed"'
    assert bytes(unwrapped.fields["_ng_failure_terminal"]) == b"false"
    assert says in text(unwrapped)


def test_what_is_not_the_reply_to_an_episode_passes_as_it_is() -> None:
    reply = fields_of(body_of("episode_success"))
    assert unwrap_episode(a_row(), reply) == Unwrapped(reply)
    assert unwrap_episode(a_task(taskset=""), reply) == Unwrapped(reply)
    for body in (b'{"reward":1.0}', b"{%s}" % IDS, b'{"episode_id":"0-0","task_id":{},"result":{}}'):
        other = fields_of(body)
        assert unwrap_episode(a_task(), other) == Unwrapped(other)
