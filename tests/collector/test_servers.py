"""Against servers that answer as Gym's do: real sockets, recorded bytes."""

import json

import pytest
import trio

from tests.collector.runs import RunFolder
from tests.gym import stub
from triocollect.errors import Exit

FAILURES = {
    "run_500": ("agent_run_error", 500),
    "run_bad_json": ("agent_run_error", 200),
    "status_400": ("agent_run_error", 400),
    "status_404": ("agent_run_error", 404),
    "status_408": ("agent_run_error", 408),
    "status_302": ("agent_run_error", 302),
    "status_429": ("agent_request_failed", 429),
    "status_502": ("agent_request_failed", 502),
    "status_503": ("agent_request_failed", 503),
    "status_504": ("agent_request_failed", 504),
    "run_short": ("agent_request_failed", None),
    "drop": ("agent_request_failed", None),
}


async def served(place, **settings):
    server = stub.Stub()
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        report = await place.collect(url=url, **settings)
        nursery.cancel_scope.cancel()
    return report, server


def rows_of(place, *choices):
    rows = [{} if choice is None else {"stub": choice} for choice in choices]
    place.write_rows([{**row, "n": n} for n, row in enumerate(rows)])


@pytest.mark.parametrize("choice", FAILURES)
async def test_a_failed_run_is_one_failure_row_of_its_class(tmp_path, choice):
    place = RunFolder(tmp_path)
    rows_of(place, None, choice)
    report, server = await served(place)
    failure_class, status = FAILURES[choice]
    (failure,) = place.sidecar()
    assert failure["_ng_failure_class"] == failure_class
    assert failure["_ng_failure_http_status"] == status
    answered = (failure["_ng_failure_response_body"] or "").strip('"')[:10]
    assert answered in report.failure_examples[failure_class], "the first words of the answer are told"
    assert failure["_ng_task_index"] == 1
    assert (report.succeeded, report.failed, report.exit_code) == (1, 1, Exit.OK)
    assert len(server.runs()) == 2, "the same attempt is never sent again"


async def test_a_redirect_is_not_followed_and_says_where_it_points(tmp_path):
    place = RunFolder(tmp_path)
    rows_of(place, None, "status_302")
    _, server = await served(place)
    assert "302" in place.sidecar()[0]["_ng_failure_message"]
    assert {request.method for request in server.requests} == {"POST"}


async def test_a_lost_reply_is_never_replayed_under_the_same_attempt(tmp_path):
    place = RunFolder(tmp_path)
    rows_of(place, "drop", *[None] * 9)
    report, server = await served(place)
    bodies = [json.loads(request.body) for request in server.runs()]
    sent = [(body["_ng_task_index"], body.get("_ng_attempt_index", 0)) for body in bodies]
    assert sorted(sent)[:3] == [(0, 0), (0, 1), (0, 2)]
    assert len(set(sent)) == len(sent)
    assert (report.sends, report.retried, report.failed) == (12, 2, 1)
    assert place.sidecar()[0]["_ng_attempt_index"] == 2


async def test_a_server_that_is_not_there_is_told_and_bounded(tmp_path):
    place = RunFolder(tmp_path, rows=10)
    report = await place.collect(url="http://127.0.0.1:9", max_attempts=1)
    assert (report.succeeded, report.failed, report.exit_code) == (0, 10, Exit.INCOMPLETE)
    assert report.failures_by_class == {"agent_request_failed": 10}
    assert "127.0.0.1" in place.sidecar()[0]["_ng_failure_message"]
    assert [failure.get("_ng_attempt_index", 0) for failure in place.sidecar()] == [0] * 10


async def test_no_cookie_of_one_row_reaches_another(tmp_path):
    place = RunFolder(tmp_path)
    rows_of(place, "run_flat", "run_flat")
    report, server = await served(place, concurrency=1)
    assert report.succeeded == 2
    assert all(request.header(b"cookie") == [] for request in server.requests)


async def test_the_body_of_a_run_is_the_materialised_line(tmp_path):
    place = RunFolder(tmp_path, rows=3)
    _, server = await served(place, concurrency=1)
    lines = (tmp_path / "out_materialized_inputs.jsonl").read_bytes().splitlines()
    assert [request.body for request in server.runs()] == lines


async def test_no_more_requests_are_in_flight_than_were_asked_for(tmp_path):
    place, server = RunFolder(tmp_path, rows=40), stub.Stub(delay_s=0.01)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        await place.collect(url=url, concurrency=7)
        nursery.cancel_scope.cancel()
    assert server.most_in_flight == 7


async def test_the_proxies_of_the_environment_are_not_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "::1,10.0.0.0/8,fe80::/10")
    report, _ = await served(RunFolder(tmp_path, rows=2))
    assert report.succeeded == 2


async def test_a_reply_above_the_limit_is_a_failure_row(tmp_path):
    place = RunFolder(tmp_path)
    rows_of(place, None, "run_flat")
    report, _ = await served(place, max_reply_bytes=10)
    assert report.failures_by_class == {"agent_run_error": 2}
    assert "10 bytes" in report.failure_examples["agent_run_error"]
    assert "10 bytes" in place.sidecar()[0]["_ng_failure_message"]
