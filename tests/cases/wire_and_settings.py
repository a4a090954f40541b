"""Cases about replies and connections, and about settings of the wrong type."""

from typing import Final

from tests.cases.expect import Case, Grown, Run, Seen, Untouched
from tests.cases.participant import reply

SEPARATOR: Final = "\N{PARAGRAPH SEPARATOR}".encode()
WITH_SEPARATOR: Final = reply(b'{"reward":1.0,"text":"a%sb"}' % SEPARATOR)


def _was_lost_on_a_used_connection(seen: Seen) -> None:
    first, second = seen.requests
    assert first.connection == second.connection


def _keeps_what_the_server_said(seen: Seen) -> None:
    (line,) = seen.failures
    assert b'"_ng_failure_http_status":500' in line
    assert b'"_ng_failure_response_body":"<html>boom</html>"' in line


def _names_the_way(seen: Seen) -> None:
    (line,) = seen.failures
    assert b'"_ng_failure_http_status":302' in line
    assert b"http://127.0.0.1:1/elsewhere" in line
    assert [request.method for request in seen.requests] == ["POST"]


def _carries_no_cookie(seen: Seen) -> None:
    assert len(seen.requests) == 2
    assert not any("cookie" in request.headers for request in seen.requests)


def _is_said_to_be_damaged(seen: Seen) -> None:
    (line,) = seen.failures
    assert b"the reply is damaged JSON" in line


EXPECT: Final = {
    "B020": Case(
        runs=(
            Run(
                answers={"a": "reply.http"},
                exit_code=3,
                says=("agent_run_error 1",),
                sent="a",
                disk=Grown(failures="a:agent_run_error"),
                also=_is_said_to_be_damaged,
            ),
            Run(
                answers={"a": WITH_SEPARATOR},
                exit_code=0,
                says=("1 prior failure attempts (1 unique tasks)",),
                sent="a@1",
                disk=Grown(output="a@1"),
            ),
            Run(
                exit_code=0,
                says=("1 rows already done",),
                disk=Grown(),
                counts={"succeeded": 1, "damaged": 0, "sends": 0},
            ),
        ),
        choice="The reply to a row is one JSON object, so NDJSON is not read: the row fails, in one line.",
    ),
    "B123": Case(
        runs=(
            Run(
                answers={"b": "reply.http"},
                flags=("-c", "1"),
                exit_code=0,
                says=("agent_request_failed 1",),
                sent="a b",
                disk=Grown(output="a", failures="b:agent_request_failed"),
                counts={"succeeded": 1, "failed": 1, "sends": 2},
                also=_was_lost_on_a_used_connection,
            ),
            Run(
                answers={"b": "reply.http"},
                exit_code=0,
                says=("agent_request_failed 1",),
                sent="b@1",
                disk=Grown(failures="b@1:agent_request_failed"),
            ),
            Run(
                exit_code=0,
                says=("1 rows that still need to be run",),
                sent="b@2",
                disk=Grown(output="b@2"),
                counts={"succeeded": 2, "failed": 0},
            ),
        ),
        choice="The row is sent again as a new attempt only: here by the next run, as sends are few.",
    ),
    "B127": Case(
        runs=(
            Run(
                answers={"b": "reply.http"},
                exit_code=0,
                says=("Failed: agent_run_error 1",),
                sent="a b c d",
                disk=Grown(output="a c d", failures="b:agent_run_error"),
                counts={"succeeded": 3, "failed": 1},
                also=_keeps_what_the_server_said,
            ),
            Run(
                answers={"b": "reply.http"},
                folder="all wanted",
                flags=("--require-complete",),
                exit_code=3,
                says=("not every row is a success, as was required",),
                sent="a b c d",
                disk=Grown(output="a c d", failures="b:agent_run_error"),
                counts={"succeeded": 3, "failed": 1},
            ),
        )
    ),
    "B133": Case(
        runs=(
            Run(
                answers={"a": "reply.http"},
                exit_code=3,
                says=("agent_run_error 1",),
                sent="a",
                disk=Grown(failures="a:agent_run_error"),
                also=_names_the_way,
            ),
        )
    ),
    "B135": Case(
        runs=(
            Run(
                answers={"*": "reply.http"},
                flags=("-c", "1"),
                exit_code=0,
                says=("Rows: 2 expected = 2 succeeded",),
                sent="a b",
                disk=Grown(output="a b"),
                also=_carries_no_cookie,
            ),
        )
    ),
    "B164": Case(
        runs=(
            Run(
                exit_code=2,
                says=("participants[0].url in {folder}/settings.json: needs a URL as text, not null",),
                disk=Untouched(),
            ),
        )
    ),
    "B166": Case(
        runs=(
            Run(
                exit_code=2,
                says=(
                    "resume in {folder}/settings.json: needs one of auto, never, must; not 'false'",
                    "checkpoint_every_s in {folder}/settings.json: needs a duration",
                    "concurrency in {folder}/settings.json: needs a whole number, not 3.9",
                ),
                disk=Untouched(),
            ),
        )
    ),
}
