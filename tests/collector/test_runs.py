"""Rows in, results out: what a run writes, counts and leaves, in simulated time."""

import pytest
import trio

from tests.collector.runs import RunFolder, rewarded
from triocollect import events
from triocollect.errors import Exit
from triocollect.report.status import status

pytestmark = pytest.mark.usefixtures("autojump_clock")


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


async def test_failures_without_a_class_bear_one_name_wherever_they_are_told(tmp_path):
    async def dispatch(row, attempt):
        return {"_ng_failure_class": "", "_ng_failure_message": "it broke"}

    place = RunFolder(tmp_path)
    report = await place.collect(dispatch)
    [found] = status(place.output).outputs
    for told in (report, found):
        assert dict(told.failures_by_class) == {"unknown": 4}
        assert dict(told.failure_examples) == {"unknown": "it broke"}


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


async def test_an_exception_of_the_callers_own_ends_the_run_and_starts_no_other_row(tmp_path):
    place, heard = RunFolder(tmp_path), []

    async def hand_over(result):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await place.collect(rewarded, hand_over=hand_over, concurrency=1, listener=heard.append)
    assert sum(isinstance(event, events.RowSent) for event in heard) == 1
    assert (await place.collect(rewarded)).succeeded_now == 3


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
