"""Rows in, results out: what a run writes, counts and leaves, in simulated time."""

import errno
import math
import os

import pytest
import trio
from trio.testing import MockClock

from tests.collector.runs import RunFolder, rewarded
from triocollect import errors, events
from triocollect.errors import Exit
from triocollect.records.output import scan_output

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0)


async def test_every_row_ends_as_one_line(tmp_path):
    place = RunFolder(tmp_path, rows=5)
    report = await place.collect(rewarded, rows={"num_repeats": 3})
    assert place.written() == [(task, rollout) for task in range(5) for rollout in range(3)]
    assert (report.expected, report.succeeded, report.left, report.exit_code) == (15, 15, 0, Exit.OK)
    assert report.mean_reward == 1.0


async def test_rows_are_started_in_input_order_so_many_at_a_time(tmp_path):
    place, started, flying, most = RunFolder(tmp_path, rows=7), [], 0, 0

    async def dispatch(row, attempt):
        nonlocal flying, most
        started.append(row["prompt"])
        flying += 1
        most = max(most, flying)
        await trio.sleep(1)
        flying -= 1
        return {"reward": 0}

    await place.collect(dispatch, concurrency=3)
    assert started == [f"p{n}" for n in range(7)]
    assert most == 3
    assert trio.current_time() == 3


async def test_one_failing_row_ends_nothing(tmp_path):
    async def dispatch(row, attempt):
        if row["prompt"] == "p1":
            raise LookupError("no such tool")
        return await rewarded(row, attempt)

    place = RunFolder(tmp_path)
    report = await place.collect(dispatch)
    assert (report.succeeded, report.failed, report.exit_code) == (3, 1, Exit.OK)
    assert report.failures_by_class == {"agent_run_error": 1}
    (failure,) = place.sidecar()
    assert failure["_ng_failure_type"] == "LookupError"
    assert failure["_ng_failure_message"] == "no such tool"
    assert failure["_ng_task_index"] == 1


async def test_a_completeness_that_was_asked_for_is_told_by_the_exit_code(tmp_path):
    async def dispatch(row, attempt):
        return {"reward": 1} if row["prompt"] == "p0" else {"_ng_failure_class": "judge_invalid"}

    place = RunFolder(tmp_path)
    report = await place.collect(dispatch, output={"require_complete": True})
    assert report.exit_code == Exit.INCOMPLETE
    assert report.failures_by_class == {"judge_invalid": 3}


async def test_a_run_without_any_success_is_no_success(tmp_path):
    async def dispatch(row, attempt):
        return {"_ng_failure_class": "judge_invalid"}

    assert (await RunFolder(tmp_path).collect(dispatch)).exit_code == Exit.INCOMPLETE


async def test_a_row_that_asks_for_no_line_is_left(tmp_path):
    async def dispatch(row, attempt):
        return {"_ng_no_persist": True, "_ng_failure_class": "x"} if row["prompt"] == "p0" else {"reward": 1}

    place = RunFolder(tmp_path)
    report = await place.collect(dispatch)
    assert (report.succeeded, report.failed, report.left, report.exit_code) == (3, 0, 1, Exit.LEFT)
    assert place.written() == [(1, 0), (2, 0), (3, 0)]


async def test_an_input_without_rows_is_done_at_once_and_writes_nothing(tmp_path):
    place = RunFolder(tmp_path, rows=0)
    before = place.snapshot()
    report = await place.collect(rewarded)
    assert (report.expected, report.exit_code) == (0, Exit.OK)
    assert place.snapshot() == before


async def test_a_rerun_sends_only_what_is_not_done_and_touches_no_byte_of_it(tmp_path):
    place, sent = RunFolder(tmp_path, rows=6), []

    async def first(row, attempt):
        await trio.sleep(1 if row["prompt"] in {"p1", "p4"} else 100)
        return {"reward": 1.0, "big": "x" * 5000}

    with trio.move_on_after(10):
        await place.collect(first)
    written = place.output.read_bytes()
    assert place.written() == [(1, 0), (4, 0)]

    async def second(row, attempt):
        sent.append((row["prompt"], attempt))
        return {"reward": 0.0}

    report = await place.collect(second)
    assert sorted(sent) == [("p0", 0), ("p2", 0), ("p3", 0), ("p5", 0)]
    assert place.output.read_bytes().startswith(written)
    assert (report.succeeded, report.succeeded_now) == (6, 4)
    again = await place.collect(second)
    assert (again.sends, again.exit_code) == (0, Exit.OK)


async def test_a_row_that_failed_is_tried_again_as_its_next_attempt_until_its_budget_is_used(tmp_path):
    place, sent = RunFolder(tmp_path, rows=2), []

    async def dispatch(row, attempt):
        sent.append((row["prompt"], attempt, row.get("_ng_attempt_index")))
        return {"reward": 1} if row["prompt"] == "p0" else {"_ng_failure_class": "judge_invalid"}

    for _ in range(5):
        report = await place.collect(dispatch)
    assert [entry for entry in sent if entry[0] == "p1"] == [
        ("p1", 0, None),
        ("p1", 1, None),
        ("p1", 2, None),
    ]
    assert [failure.get("_ng_attempt_index") for failure in place.sidecar()] == [None, 1, 2]
    assert (report.failed, report.sends) == (1, 0)


async def test_a_terminal_failure_is_not_tried_again(tmp_path):
    place, sent = RunFolder(tmp_path, rows=2), []

    async def dispatch(row, attempt):
        sent.append(row["prompt"])
        if row["prompt"] == "p0":
            return {"reward": 1}
        return {"_ng_failure_class": "skipped", "_ng_failure_terminal": True}

    await place.collect(dispatch)
    await place.collect(dispatch)
    assert sorted(sent) == ["p0", "p1"]


async def test_a_row_that_succeeds_later_is_no_failure_any_more(tmp_path):
    place = RunFolder(tmp_path, rows=2)

    async def failing(row, attempt):
        return {"reward": 1} if row["prompt"] == "p0" else {"_ng_failure_class": "judge_invalid"}

    await place.collect(failing)
    report = await place.collect(rewarded)
    assert (report.succeeded, report.failed, report.failures_by_class) == (2, 0, {})
    assert place.records()[-1]["_ng_attempt_index"] == 1


async def test_a_row_timeout_gives_up_the_request_and_says_so(tmp_path):
    async def dispatch(row, attempt):
        if row["prompt"] == "p0":
            await trio.sleep_forever()
        return {"reward": 1}

    place = RunFolder(tmp_path, rows=2)
    report = await place.collect(dispatch, row_timeout_s=60)
    assert report.failures_by_class == {"agent_request_failed": 1}
    assert "row timeout of 60 s" in place.sidecar()[0]["_ng_failure_message"]


async def test_no_reply_is_sent_again_as_the_next_attempt_within_the_retry_budget(tmp_path):
    place, sent = RunFolder(tmp_path, rows=10), []

    async def dispatch(row, attempt):
        sent.append((row["prompt"], attempt))
        if (row["prompt"], attempt) in {("p0", 0), ("p0", 1), ("p1", 0)}:
            await trio.sleep_forever()
        return {"reward": 1}

    report = await place.collect(dispatch, row_timeout_s=1)
    assert len(sent) == report.sends == 12  # 1.2 x 10
    assert report.retried == 2
    assert report.succeeded + report.failed == 10
    assert len(set(sent)) == len(sent)


async def test_when_time_is_up_no_row_is_started_and_the_rest_is_left(tmp_path):
    place = RunFolder(tmp_path, rows=10)
    report = await place.collect(rewarded, concurrency=1, budget_s=5, drain_margin_s=math.ulp(1))
    assert (report.succeeded, report.left, report.exit_code) == (5, 5, Exit.LEFT)
    assert any("dispatch budget" in note for note in report.notes)
    assert (await place.collect(rewarded)).succeeded == 10


@pytest.mark.parametrize(
    ("longest_first", "order"), [(True, ["p3", "p1", "p0", "p2"]), (False, ["p0", "p1", "p2", "p3"])]
)
async def test_known_long_rows_are_sent_first_where_that_is_asked_for(tmp_path, longest_first, order):
    place, sent = RunFolder(tmp_path, rows=4), []

    async def failing(row, attempt):
        seconds = {"p1": 7.0, "p3": 9.0}.get(row["prompt"])
        if seconds is None:
            return {"_ng_failure_class": "judge_invalid"}
        return {"_ng_failure_class": "judge_invalid", "elapsed_seconds": seconds}

    await place.collect(failing)

    async def dispatch(row, attempt):
        sent.append(row["prompt"])
        return {"reward": 1}

    await place.collect(dispatch, concurrency=1, longest_first=longest_first)
    assert sent == order


async def test_a_failed_row_that_was_not_tried_again_in_time_leaves_the_run_unfinished(tmp_path):
    async def failing(row, attempt):
        return {"reward": 1} if row["prompt"] == "p0" else {"_ng_failure_class": "judge_invalid"}

    place = RunFolder(tmp_path)
    await place.collect(failing)
    report = await place.collect(rewarded, concurrency=1, budget_s=2, drain_margin_s=math.ulp(1))
    assert (report.succeeded, report.failed, report.exit_code) == (3, 1, Exit.LEFT)


async def test_an_exception_of_the_callers_own_ends_the_run_and_starts_no_other_row(tmp_path):
    place, heard = RunFolder(tmp_path), []

    async def hand_over(result):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await place.collect(rewarded, hand_over=hand_over, concurrency=1, listener=heard.append)
    assert sum(isinstance(event, events.RowSent) for event in heard) == 1
    assert (await place.collect(rewarded)).succeeded_now == 3


async def test_a_sync_that_takes_long_is_waited_for_when_the_run_is_cut(tmp_path, monkeypatch):
    place, syncing = RunFolder(tmp_path), []

    async def slow(work):
        syncing.append("begun")
        with trio.CancelScope(shield=True):
            await trio.sleep(50)
            work()
        syncing.append("ended")

    async def dispatch(row, attempt):
        await trio.sleep(0 if row["prompt"] == "p0" else 10)
        return {"reward": 1.0}

    with trio.move_on_after(5):
        await place.collect(dispatch, blocking=slow)
    assert syncing == ["begun", "ended"]


async def test_nan_is_a_failure_and_never_null(tmp_path):
    async def dispatch(row, attempt):
        return b'{"reward":NaN}' if row["prompt"] == "p0" else b'{"reward":1}'

    place = RunFolder(tmp_path, rows=2)
    await place.collect(dispatch)
    assert "NaN" in place.sidecar()[0]["_ng_failure_message"]
    assert b"null" not in place.output.read_bytes()


async def test_what_a_reply_holds_passes_as_it_came(tmp_path):
    body = b'{"n": 123456789012345678901234567890, "f": 1.0e2,\n "s": "\\u00e9", "reward": 1}'

    async def dispatch(row, attempt):
        return body

    place = RunFolder(tmp_path, rows=1)
    await place.collect(dispatch)
    expected = b'{"n":123456789012345678901234567890,"f":1.0e2,"s":"\\u00e9","reward":1,'
    assert place.output.read_bytes().startswith(expected)
    assert place.output.read_bytes().count(b"\n") == 1


async def test_the_events_of_a_run_add_up(tmp_path):
    heard = []

    async def dispatch(row, attempt):
        return {"reward": 1} if row["prompt"] != "p0" else {"_ng_failure_class": "x"}

    await RunFolder(tmp_path).collect(dispatch, listener=heard.append)
    kinds = [type(event) for event in heard]
    assert kinds.count(events.RowSent) == 4
    assert kinds.count(events.RowSucceeded) == 3
    assert kinds.count(events.RowFailed) == 1
    assert kinds.index(events.RunStarted) < kinds.index(events.RowSent)


async def test_a_result_is_written_before_it_is_handed_over(tmp_path):
    place, seen = RunFolder(tmp_path, rows=3), []

    async def hand_over(result):
        seen.append(result.key)
        assert list(result.key) in [list(key) for key in place.written()]
        await trio.sleep(10)

    await place.collect(rewarded, hand_over=hand_over)
    assert sorted(seen) == [(0, 0), (1, 0), (2, 0)]


async def test_a_full_disk_ends_the_run_with_one_message_and_whole_lines(tmp_path, monkeypatch):

    place, real = RunFolder(tmp_path, rows=4), os.write

    def full(fd, data):
        if b'"p2"' in data:
            real(fd, data[:17])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    async def in_turn(row, attempt):
        await trio.sleep(int(row["prompt"][1]))
        return {"reward": 1.0, "prompt": row["prompt"]}

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(errors.StorageError, match=r"out\.jsonl: No space left on device"):
        await place.collect(in_turn)
    monkeypatch.setattr(os, "write", real)
    assert place.written() == [(0, 0), (1, 0)]
    assert (await place.collect(rewarded)).succeeded == 4


async def test_after_a_full_disk_no_other_row_is_started(tmp_path, monkeypatch):

    def full(fd, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place, heard, real = RunFolder(tmp_path, rows=4), [], os.write

    async def dispatch(row, attempt):
        monkeypatch.setattr(os, "write", full)
        await trio.sleep(1)
        return {"reward": 1.0}

    with pytest.raises(errors.StorageError):
        await place.collect(dispatch, listener=heard.append, concurrency=1)
    monkeypatch.setattr(os, "write", real)
    assert sum(isinstance(event, events.RowSent) for event in heard) == 1


async def test_a_short_write_is_taken_back_and_written_again(tmp_path, monkeypatch):

    place, real, cut = RunFolder(tmp_path, rows=3), os.write, []

    def short(fd, data):
        if b'"p1"' in data and not cut:
            cut.append(data)
            return real(fd, data[:17])
        return real(fd, data)

    monkeypatch.setattr(os, "write", short)
    await place.collect(rewarded)
    assert place.written() == [(0, 0), (1, 0), (2, 0)]
    assert cut


def move_away(path):
    path.rename(path.with_name("elsewhere"))
    path.touch()


MEDDLING = {
    "removes it": lambda path: path.unlink(),
    "replaces it": move_away,
    "cuts it": lambda path: os.truncate(path, 10),
    "appends to it": lambda path: path.open("a").write('{"half'),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("meddling", MEDDLING)
async def test_a_run_whose_output_somebody_else_touches_does_not_claim_success(tmp_path, meddling):
    place = RunFolder(tmp_path)

    async def dispatch(row, attempt):
        if row["prompt"] == "p2":
            MEDDLING[meddling](place.output)
        return {"reward": 1.0}

    with pytest.raises(errors.StorageError, match=r"out\.jsonl"):
        await place.collect(dispatch, concurrency=1)
    assert (await place.collect(rewarded)).succeeded == 4
    assert sorted(scan_output(place.output).done) == [(n, 0) for n in range(4)]


@pytest.mark.parametrize("name", ["out.jsonl", "out_failures.jsonl", "out_materialized_inputs.jsonl"])
async def test_the_input_is_never_taken_for_a_file_of_the_output(tmp_path, name):
    place = RunFolder(tmp_path)
    before = place.input.read_bytes()
    (tmp_path / name).hardlink_to(place.input)
    with pytest.raises(errors.UsageError, match="is the input file itself"):
        await place.collect(rewarded, output={"resume": "never", "overwrite": True})
    assert place.input.read_bytes() == before


async def test_an_exception_that_cannot_say_what_it_is_fails_its_row_alone(tmp_path):
    class Mute(Exception):  # noqa: N818
        def __str__(self):
            raise RuntimeError

    async def dispatch(row, attempt):
        if row["prompt"] == "p1":
            raise Mute
        return {"reward": 1.0}

    report = await RunFolder(tmp_path).collect(dispatch)
    assert (report.succeeded, report.failed) == (3, 1)
