"""What a run writes the next one reads back with the same fate: no row runs again for a server's habits."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from triocollect.collector.outcome import Failure, Success, Unpersisted
from triocollect.collector.reply import SentRow, judge
from triocollect.gym.records import encode_record
from triocollect.gym.routing import Target
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.records.output import scan_output
from triocollect.records.sidecar import scan_sidecar
from triocollect.rows.types import parse_row
from triocollect.transport import Reply

ROW = parse_row(b'{"agent_ref":{"name":"a"},"_ng_task_index":3,"_ng_rollout_index":1}')
anything = st.sampled_from(
    [
        b"null",
        b"0",
        b"7",
        b"-1",
        b"1.5",
        b'"x"',
        b'""',
        b"true",
        b"false",
        b"[]",
        b"{}",
        b"99999999999999",
        b'"7"',
    ]
)
names = st.sampled_from(
    [
        "reward",
        "response",
        "error",
        "_ng_failure_class",
        "_ng_failure_terminal",
        "_ng_failure_message",
        "_ng_attempt_index",
        "_ng_task_index",
        "_ng_rollout_index",
        "_ng_no_persist",
        "elapsed_seconds",
        "text",
    ]
)


@given(st.dictionaries(names, anything), st.integers(0, 3))
def test_a_reply_is_read_back_as_what_it_was_taken_for(tmp_path_factory, fields, attempt):
    body = msgspec.json.encode({name: Raw(value) for name, value in fields.items()})
    sent = SentRow(ROW, EpisodeId("3-1", attempt), Target("http://x"))
    outcome = judge(sent, Reply(status=200, headers=(), body=body))
    path = tmp_path_factory.mktemp("read") / "file.jsonl"
    match outcome:
        case Success():
            path.write_bytes(encode_record(outcome.fields))
            scan = scan_output(path)
            assert list(scan.done) == [RowKey(3, 1)]
            assert scan.damaged.count == scan.failures.count == 0
            if attempt:
                assert scan.attempts[RowKey(3, 1)] == attempt
        case Failure():
            path.write_bytes(encode_record(outcome.fields))
            scan = scan_sidecar(path)
            assert scan.damaged.count == 0
            tried = scan.tried[RowKey(3, 1)]
            assert tried.failure_class == outcome.failure_class
            assert tried.attempt >= attempt
            assert len(scan_output(path).done) == 0
        case _:
            assert isinstance(outcome, Unpersisted)


@pytest.mark.parametrize("index", [1 << 32, 1 << 63])
def test_an_index_that_could_not_be_read_back_is_refused_in_the_input(tmp_path, index):
    from triocollect.errors import UsageError  # noqa: PLC0415
    from triocollect.rows.numbers import preset_task_index  # noqa: PLC0415

    with pytest.raises(UsageError, match="_ng_task_index"):
        preset_task_index(index)
    assert preset_task_index((1 << 32) - 1) == (1 << 32) - 1
