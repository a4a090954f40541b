"""What is told of a server's work, however it ends; of what is not told the next server hears whose it is."""

import argparse
import logging

import httpx
import msgspec
import pytest
from opentelemetry.trace import StatusCode
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.telemetry.told import Told
from triocollect.servers.observed import Observed, observe, observed
from triocollect.servers.peers import Peer
from triocollect.telemetry.here import Recording, record
from triocollect.telemetry.logs import JsonLog

SAID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def told():
    one = Told()
    yield one
    one.recorder.close(5.0)


async def fine(_request):
    return PlainTextResponse("fine")


async def broken(_request):
    raise RuntimeError("no luck")


def an_app():
    return Starlette(
        routes=[
            Route("/run", fine, methods=["POST"]),
            Route("/broken", broken, methods=["POST"]),
            Route("/ng-rollout/{key}/close", fine, methods=["POST"]),
        ]
    )


def client_of(app):
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://server")


async def test_a_path_that_anybody_may_think_of_makes_no_name_of_a_span(told):
    app = an_app()
    with record(told.recorder.recording):
        observe(app)
        async with client_of(app) as client:
            for path in ("/run", "/ng-rollout/3-0/close", "/ng-rollout/3-0/x1", "/x2", "/checkpoint/v1/x3"):
                await client.post(path)
            await client.post("/checkpoint/v1/prepare")
    assert [span.name for span in told.spans] == [
        "POST /run",
        "POST /ng-rollout/{key}/close",
        *["POST (no route)"] * 3,
        "POST /checkpoint/v1/prepare",
    ]


async def test_an_application_that_fails_is_told_of_too(told, tmp_path):
    log = JsonLog(tmp_path / "log.jsonl", "server", pytest.fail)
    app = an_app()
    with record(Recording(spans=told.recorder.recording.spans, log=log)):
        observe(app)
        async with client_of(app) as client:
            assert (await client.post("/broken")).status_code == 500
    log.close()
    [span] = told.spans
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["http.response.status_code"] == 500
    [line] = map(msgspec.json.decode, (tmp_path / "log.jsonl").read_bytes().splitlines())
    assert (line["event"], line["level"]) == ("served", "warning")
    assert line["message"].startswith("POST /broken: 500 after ")


async def test_a_server_that_tells_nothing_says_for_whom_it_asks_the_next_one():
    heard = []

    def next_one(request):
        heard.append(request.headers.get("traceparent"))
        return httpx.Response(200)

    peer = Peer("next", "http://next", lambda _url: httpx.MockTransport(next_one))

    async def ask(_request):
        await peer.post("/x", b"", {})
        return PlainTextResponse("asked")

    app = Starlette(routes=[Route("/run", ask, methods=["POST"])])
    observe(app)
    async with client_of(app) as client:
        await client.post("/run", headers={"traceparent": SAID})
        await client.post("/run")
    await peer.aclose()
    assert heard == [SAID, None]


def test_what_logging_is_told_after_a_server_has_ended_goes_to_no_log_of_it(tmp_path):
    asked = argparse.Namespace(
        telemetry="none", prometheus=None, log_json=tmp_path / "log.jsonl", kind="agent", name="agent"
    )
    before = logging.getLogger().handlers[:]
    with observed(asked, pytest.fail):
        assert logging.getLogger().handlers != before
    assert logging.getLogger().handlers == before


async def test_control_calls_of_a_coordinator_have_their_own_names(told):
    async def plane(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with record(told.recorder.recording):
        async with client_of(Observed(plane)) as client:
            await client.post("/checkpoint/v1/commit")
            await client.post("/anything")
    assert [span.name for span in told.spans] == ["POST /checkpoint/v1/commit", "POST (no route)"]
