"""What earlier runs left counts by identity; what does not count is told with its place."""

import msgspec
import pytest

from triocollect.protocol.ids import RowKey
from triocollect.records.output import scan_output
from triocollect.records.sidecar import scan_sidecar


def record(task, rollout=0, **fields):
    return msgspec.json.encode(
        {"reward": 1.0, **fields, "_ng_task_index": task, "_ng_rollout_index": rollout}
    )


def written(tmp_path, *lines):
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


DAMAGE = {
    "a run of NULs": b"\0" * 300,
    "padding before a record": b"\0" * 64 + record(1),
    "half a record glued to the next": record(1)[:20] + record(2),
    "bad UTF-8": record(1, text="é").replace(b"\xc3", b"\xff"),
    "a lone surrogate": record(1).replace(b"1.0", b'"\\ud800"'),
    "NaN": record(1).replace(b"1.0", b"NaN"),
    "a list": b"[]",
    "a number": b"42",
    "no indices": b'{"reward":1.0}',
    "an index that is text": record(1).replace(b'index":1', b'index":"1"'),
    "a negative index": record(-1),
    "an index beyond all": record(1 << 40),
    "brackets without end": b"[" * 5000,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_in_the_middle_hides_no_row_behind_it(tmp_path, damage):
    scan = scan_output(written(tmp_path, record(0), damage, record(7)))
    assert list(scan.done) == [RowKey(0, 0), RowKey(7, 0)]
    (finding,) = scan.damaged.first
    assert (finding.line, finding.offset) == (2, len(record(0)) + 1)


def test_blank_lines_are_no_damage(tmp_path):
    scan = scan_output(written(tmp_path, record(0), b"", b"  \r", record(1)))
    assert len(scan.done) == 2
    assert scan.damaged.count == 0


def test_the_first_of_two_results_counts(tmp_path):
    scan = scan_output(written(tmp_path, record(0, _ng_attempt_index=1), record(0)))
    assert list(scan.done) == [RowKey(0, 0)]
    assert scan.attempts == {RowKey(0, 0): 1}
    assert "line 2" in str(scan.duplicates.first[0])


@pytest.mark.parametrize(
    "line",
    [record(0, _ng_failure_class="x"), b'{"error":"timeout","_ng_task_index":0,"_ng_rollout_index":0}'],
)
def test_a_failure_among_the_results_is_not_a_finished_row(tmp_path, line):
    scan = scan_output(written(tmp_path, line))
    assert len(scan.done) == 0
    assert scan.failures.count == 1


def test_a_result_with_an_error_field_of_its_own_is_a_result(tmp_path):
    assert len(scan_output(written(tmp_path, record(0, error="mine"))).done) == 1


def test_a_broken_file_tells_the_first_findings_and_counts_all(tmp_path):
    scan = scan_output(written(tmp_path, *[b"x"] * 1000))
    assert scan.damaged.count == 1000
    assert len(scan.damaged.words()) == 21
    assert "980 more" in scan.damaged.words()[-1]


def failure(task, **fields):
    return record(task, _ng_failure_class="agent_run_error", **fields)


def test_the_sidecar_tells_how_often_a_row_failed_and_at_which_attempt(tmp_path):
    path = written(
        tmp_path, failure(0), failure(1), failure(0, _ng_attempt_index=2, elapsed_seconds=7.5), b"\0\0"
    )
    scan = scan_sidecar(path)
    assert (scan.tried[RowKey(0, 0)].lines, scan.tried[RowKey(0, 0)].attempt) == (2, 2)
    assert scan.tried[RowKey(0, 0)].elapsed_s == 7.5
    assert scan.damaged.count == 1


@pytest.mark.parametrize(
    ("failure_class", "terminal", "retrying", "expected"),
    [
        ("skipped", True, False, True),
        ("skipped", False, False, False),
        ("skipped", False, True, True),
        ("timeout_exceeded", True, False, True),
        ("timeout_exceeded", True, True, False),
        ("other", True, True, True),
    ],
)
def test_a_terminal_failure_is_final_but_for_what_the_user_retries(
    tmp_path, failure_class, terminal, retrying, expected
):
    line = record(0, _ng_failure_class=failure_class, _ng_failure_terminal=terminal)
    scan = scan_sidecar(written(tmp_path, line), retry_terminal_timeouts=retrying)
    assert scan.tried[RowKey(0, 0)].terminal is expected
