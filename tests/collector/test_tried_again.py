"""Which rows another run sends, at which attempt, and which a run leaves for the next one."""

import math

import pytest
import trio

from tests.collector.runs import RunFolder, rewarded
from triocollect.errors import Exit

pytestmark = pytest.mark.usefixtures("autojump_clock")


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


async def test_rows_that_are_all_lost_at_once_share_the_retry_budget(tmp_path):
    place, sent = RunFolder(tmp_path, rows=10), []

    async def dispatch(row, attempt):
        sent.append((row["prompt"], attempt))
        if attempt == 0:
            await trio.sleep_forever()
        return {"reward": 1}

    report = await place.collect(dispatch, row_timeout_s=1)
    assert len(sent) == report.sends == 12  # 1.2 x 10
    assert (report.succeeded, report.failed) == (2, 8)


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
