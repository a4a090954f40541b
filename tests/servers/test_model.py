"""The policy model server in front of a worker."""

import json
from itertools import pairwise

import httpx
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.wired import hanging_up
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.model.app import ModelServer, ModelSettings, build_app
from triocollect.servers.model.backends.line import Line
from triocollect.servers.model.backends.ways import Findings, decide
from triocollect.servers.model.calls import Call, Calls, new_id
from triocollect.servers.model.events import EventStream
from triocollect.servers.peers import LINGER_S, Peer, network
from triocollect.servers.workers.keeping import Crewed

RESPONSE = {"id": "r", "output": [], "note": "line\u2028separators\u0085stay"}
STREAM = (
    b': a comment\n\nevent: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n'
    b'data: {"type":"response.output_text.delta","delta":"x"}\r\n\r\n'
    b"data: "
    + json.dumps({"type": "response.completed", "response": RESPONSE}, ensure_ascii=False).encode()
    + b"\n\n"
    b"data: [DONE]\n\n"
)


def an_app(handler, **settings):
    worker_settings = ModelSettings(worker_url="http://worker/v1", **settings)
    return build_app(worker_settings, lambda _url: httpx.MockTransport(handler))


async def post(app, path, body, **kwargs):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://model") as client:
        return await client.post(path, json=body, **kwargs)


def streamed(_request):
    return httpx.Response(200, content=STREAM, headers={"content-type": "text/event-stream"})


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_a_stream_is_read_the_same_in_whatever_pieces_it_comes(cuts):
    stream, edges = EventStream(), sorted({0, len(STREAM), *cuts})
    pieces = [STREAM[start:end] for start, end in pairwise(edges)]
    events = [event for piece in pieces for event in stream.feed(piece)]
    assert [event.type for event in events] == [
        "response.created",
        "response.output_text.delta",
        "response.completed",
    ]
    assert json.loads(bytes(events[2].response)) == RESPONSE


@pytest.mark.parametrize("path", ["/v1/responses", "/ng-rollout/3-1-a2/v1/responses"])
async def test_a_policy_call_is_streamed_from_the_worker_and_delivered_whole(path):
    asked = []

    def handler(request):
        asked.append(request)
        return streamed(request)

    reply = await post(an_app(handler, model="m", api_key="secret"), path, {"input": "hi", "model": "row's"})
    assert reply.json() == RESPONSE
    (request,) = asked
    assert request.url == "http://worker/v1/responses"
    assert json.loads(request.content) == {"input": "hi", "model": "m", "stream": True}
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers.get("x-capture-key") == ("3-1-a2" if "ng-rollout" in path else None)


async def test_a_connection_that_is_lost_behind_the_answer_costs_no_answer():
    async def torn():
        yield STREAM
        raise httpx.ReadError("connection reset")

    headers = {"content-type": "text/event-stream"}
    app = an_app(lambda _request: httpx.Response(200, content=torn(), headers=headers))
    assert (await post(app, "/v1/responses", {})).json() == RESPONSE


@pytest.mark.usefixtures("autojump_clock")
async def test_a_stream_that_stays_open_behind_the_answer_is_left_after_a_while():
    async def endless():
        yield STREAM
        await trio.sleep_forever()

    headers = {"content-type": "text/event-stream"}
    app = an_app(lambda _request: httpx.Response(200, content=endless(), headers=headers))
    with trio.fail_after(60):
        assert (await post(app, "/v1/responses", {})).json() == RESPONSE
    assert trio.current_time() == LINGER_S


async def test_a_worker_that_does_not_stream_is_understood():
    reply = await post(an_app(lambda _request: httpx.Response(200, json=RESPONSE)), "/v1/responses", {})
    assert reply.json() == RESPONSE


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (STREAM[:90], "ended its stream before"),
        (b'data: {"type":"error","message":"out of memory"}\n\n', "out of memory"),
        (b"data: {not json\n\n", "not JSON"),
    ],
)
async def test_a_stream_that_breaks_is_an_error_that_says_how(content, says):
    headers = {"content-type": "text/event-stream"}
    app = an_app(lambda _request: httpx.Response(200, content=content, headers=headers))
    reply = await post(app, "/v1/responses", {})
    assert reply.status_code == 500
    assert says in reply.json()


async def test_a_worker_that_cannot_be_reached_is_named():
    def refuse(request):
        raise httpx.ConnectError("connection refused", request=request)

    reply = await post(an_app(refuse), "/v1/responses", {})
    assert reply.json() == "inference worker did not answer: connection refused"


async def test_a_caller_that_hangs_up_leaves_no_call_behind():
    asked = []

    async def never(request):
        asked.append(request)
        await trio.sleep_forever()

    app = an_app(never)
    server = next(route.endpoint for route in app.routes if route.path == "/v1/responses")
    assert isinstance(server, ModelServer)
    sent = await hanging_up(app, "/v1/responses", {}, trio.testing.wait_all_tasks_blocked)
    assert (len(asked), sent, dict(server.capture.calls.serving)) == (1, [], {})


def test_calls_have_ids_of_their_own():
    calls = Calls()
    one, other = (calls.admit(Call(new_id(), EpisodeId("r"), b"{}")) for _ in range(2))
    assert one.id != other.id
    calls.leave(one)
    assert list(calls.serving.values()) == [other]


async def test_whoever_prints_what_holds_a_key_prints_no_key():
    seen = Findings(chat=True)
    headers = {"authorization": "Bearer s3cret"}
    peer = Peer("the backend", "http://backend", network)
    holding = [
        ModelSettings("http://backend", model="tiny", api_key="s3cret"),
        Line(peer, headers, seen, decide(seen, "on")),
        Crewed("model", "policy_model", b'{"api_key": "s3cret"}', 3, 2),
    ]
    for one in holding:
        assert "s3cret" not in repr(one)
    assert "model='tiny'" in repr(holding[0])
    await peer.aclose()
