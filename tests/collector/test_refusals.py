"""Refusals in the language of the control plane, as servers that take checkpoints send them."""

import msgspec
import pytest
import trio

from tests.collector.runs import RunFolder
from tests.transport.peer import Memory, read_request
from triocollect.collector.outcome import Closed, Failure, NoReply, NothingRan, Refused, Unpersisted
from triocollect.collector.reply import SentRow, judge
from triocollect.gym.routing import Target
from triocollect.protocol.ids import EpisodeId
from triocollect.rows.types import parse_row
from triocollect.transport import Reply

ROW = parse_row(b'{"agent_ref":{"name":"a"},"_ng_task_index":3,"_ng_rollout_index":1}')
SENT = SentRow(ROW, EpisodeId("3-1"), Target("http://x"))


def refusal(status, code, *headers):
    body = msgspec.json.encode({"error": {"code": code, "detail": "why", "phase": "open", "operation": None}})
    return Reply(status=status, headers=headers, body=body)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "checkpoint_open", Closed),
        (503, "busy", NothingRan),
        (409, "duplicate_attempt", NoReply),
        (409, "stale_attempt", Refused),
        (409, "not_restored", Refused),
        (409, "checkpoint_conflict", Failure),
        (400, "busy", Failure),
        (500, "checkpoint_open", Failure),
        (409, "anything", Failure),
        (503, "anything", NoReply),
    ],
)
def test_a_refusal_counts_only_with_the_status_that_goes_with_it(status, code, kind):
    assert type(judge(SENT, refusal(status, code))) is kind


PAGE = b"<!doctype html>\n<html><head><style>p {color: red}</style><title>Sign in</title></head></html>"


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (PAGE, b"text/html; charset=utf-8", "(text/html) and no JSON: check that the URL is"),
        (PAGE.decode().encode("utf-16"), b"text/html", "no proxy answers for it"),
        (b"<Error><Code>AccessDenied</Code></Error>", b"application/xml", "a page (application/xml)"),
        (PAGE, None, "(without a content type)"),
        (b"{", b"application/json", "damaged JSON"),
        (b"no", None, "damaged JSON"),
    ],
)
def test_a_page_in_place_of_a_reply_is_told_as_one_with_what_to_check(body, kind, told):
    headers = () if kind is None else ((b"content-type", kind),)
    outcome = judge(SENT, Reply(status=200, headers=headers, body=body))
    assert isinstance(outcome, Failure)
    assert (outcome.failure_class, told in outcome.message) == ("agent_run_error", True)
    assert outcome.message.endswith("It begins: Sign in") is (body == PAGE)


def test_more_retired_attempts_than_anybody_had_are_not_believed():
    body = b'{"error":{"code":"stale_attempt","detail":"why","retired_through":%d}}'
    known, nonsense = (Reply(status=409, headers=(), body=body % number) for number in (6, 10**30))
    assert judge(SENT, known).retired_through == 6
    assert judge(SENT, nonsense).retired_through is None


def test_a_date_to_come_back_at_is_counted_from_the_replys_own():
    later = (b"retry-after", b"Thu, 20 Aug 2026 10:02:00 GMT")
    now = (b"date", b"Thu, 20 Aug 2026 10:00:00 GMT")
    assert judge(SENT, refusal(503, "busy", later, now)).retry_after_s == 120
    assert judge(SENT, refusal(503, "busy", later)).retry_after_s is None
    assert judge(SENT, refusal(503, "busy", (b"retry-after", b"soon"))).retry_after_s is None
    assert judge(SENT, refusal(503, "busy", (b"retry-after", b"9" * 5000))).retry_after_s > 1e9


@pytest.mark.parametrize("body", [b'{"error":{"x":' + b"[" * 3000, b'{"error":' * 3000, b"\xff", b"", b"[]"])
def test_a_strange_body_of_an_error_is_only_a_failure(body):
    assert type(judge(SENT, Reply(status=409, headers=(), body=body))) is Failure


@pytest.mark.parametrize("flag", [b"1e999", b"9" * 5000, b"[" * 400 + b"]" * 400])
def test_a_flag_that_cannot_be_read_is_no_reason_to_end(flag):
    body = b'{"_ng_no_persist":' + flag + b"}"
    assert type(judge(SENT, Reply(status=200, headers=(), body=body))) in {Unpersisted, Failure}


def as_bytes(reply):
    head = b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n" % (reply.status, len(reply.body))
    return head + reply.body


@pytest.mark.usefixtures("autojump_clock")
async def test_a_closed_server_costs_a_row_no_attempt_and_none_of_its_sends(tmp_path):
    place, sent = RunFolder(tmp_path, rows=10), []

    async def closed_to_one_at_first(stream):
        while body := (await read_request(stream)).partition(b"\r\n\r\n")[2]:
            row = msgspec.json.decode(body)
            task = row["_ng_task_index"]
            sent.append((task, row.get("_ng_attempt_index", 0)))
            times = sum(entry[0] == task for entry in sent)
            if not task and times <= 5:
                await stream.send_all(as_bytes(refusal(409, "checkpoint_open")))
            elif task == 0 and times <= 7:
                return
            else:
                await stream.send_all(as_bytes(Reply(status=200, headers=(), body=b'{"reward":1}')))

    async with trio.open_nursery() as nursery:
        network = Memory(nursery, closed_to_one_at_first)
        report = await place.collect(url="http://environment", connect=network.connect)
    assert {attempt for task, attempt in sent if task} == {0}
    assert [attempt for task, attempt in sent if not task] == [0, 0, 0, 0, 0, 0, 1, 2]
    assert (report.succeeded, report.sends, report.retried) == (10, 12, 2)
    assert trio.current_time() < 400
