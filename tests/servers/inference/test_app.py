"""The worker as its callers see it: rate, hold, callers who leave, and its own counts. Simulated time."""

import json

import httpx
import pytest
import trio
from starlette.applications import Starlette
from starlette.types import Message
from trio.testing import wait_all_tasks_blocked

from tests.servers.inference.asgi import Exchange
from triocollect.capture.staging import Staging
from triocollect.protocol.identity import CALL_ID
from triocollect.servers.inference.app import InferenceSettings, build_app

PATH = "/v1/responses"


def asking(*, words: int = 8, stream: bool = False) -> dict:
    """A request whose answer has exactly `words` tokens."""
    text = " ".join("abcdefgh"[:words])
    return {"input": f"Repeat exactly: {text} tail", "max_output_tokens": words, "stream": stream}


def client(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://worker")


async def counts(app: Starlette) -> dict:
    async with client(app) as caller:
        return (await caller.get("/calls")).json()


def tokens_seen(exchange: Exchange) -> list[float]:
    return [at for at, event in exchange.events() if event["type"] == "response.output_text.delta"]


@pytest.mark.usefixtures("autojump_clock")
async def test_a_worker_without_a_rate_answers_at_once() -> None:
    app = build_app(InferenceSettings())
    async with client(app) as caller:
        reply = await caller.post(PATH, json={"input": "Repeat exactly: hello"})
        streamed = await caller.post(PATH, json={"input": "Repeat exactly: hello", "stream": True})
    assert reply.json()["output"][0]["content"][0]["text"].startswith("hello")
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert "response.completed" in streamed.text
    assert trio.current_time() == 0


@pytest.mark.usefixtures("autojump_clock")
async def test_a_whole_answer_takes_its_tokens_time() -> None:
    app = build_app(InferenceSettings(tokens_per_s=4.0))
    async with client(app) as caller:
        await caller.post(PATH, json=asking(words=8))
    assert trio.current_time() == 2.0


@pytest.mark.usefixtures("autojump_clock")
async def test_a_stream_hands_out_one_token_per_tick_and_ends_with_the_last() -> None:
    exchange = Exchange(build_app(InferenceSettings(tokens_per_s=4.0)), PATH, asking(words=4, stream=True))
    await exchange.run()
    assert tokens_seen(exchange) == [0.25, 0.5, 0.75, 1.0]
    first, last = exchange.events()[0], exchange.events()[-1]
    assert (first[0], first[1]["type"]) == (0.0, "response.created")
    assert (last[0], last[1]["type"]) == (1.0, "response.incomplete")


@pytest.mark.usefixtures("autojump_clock")
async def test_answers_are_generated_side_by_side() -> None:
    app = build_app(InferenceSettings(tokens_per_s=4.0))
    async with trio.open_nursery() as callers:
        for _ in range(20):
            callers.start_soon(Exchange(app, PATH, asking(words=8)).run)
    assert trio.current_time() == 2.0


@pytest.mark.usefixtures("autojump_clock")
async def test_nothing_is_handed_out_while_held_and_all_of_it_after() -> None:
    app = build_app(InferenceSettings(tokens_per_s=4.0, hold=True))
    whole, stream = Exchange(app, PATH, asking()), Exchange(app, PATH, asking(stream=True))
    async with client(app) as caller, trio.open_nursery() as callers:
        callers.start_soon(whole.run)
        callers.start_soon(stream.run)
        await trio.sleep(60)
        assert whole.pieces == []
        assert tokens_seen(stream) == []
        assert (await caller.get("/calls")).json()["in_flight"] == 2
        assert (await caller.post("/release")).json()["held"] is False
    assert trio.current_time() == 60
    assert len(tokens_seen(stream)) == 8
    assert whole.status == 200


@pytest.mark.usefixtures("autojump_clock")
async def test_a_hold_in_the_middle_of_a_stream_stops_it_there() -> None:
    app = build_app(InferenceSettings(tokens_per_s=4.0))
    stream = Exchange(app, PATH, asking(words=8, stream=True))
    async with client(app) as caller, trio.open_nursery() as callers:
        callers.start_soon(stream.run)
        await trio.sleep(0.6)
        assert (await caller.post("/hold")).json()["held"] is True
        await trio.sleep(60)
        assert tokens_seen(stream) == [0.25, 0.5]
        await caller.post("/release")
    assert tokens_seen(stream)[2:] == [60.6] * 6


@pytest.mark.usefixtures("autojump_clock")
async def test_a_caller_who_leaves_ends_the_generation_and_is_counted() -> None:
    app = build_app(InferenceSettings(tokens_per_s=4.0))
    for stream in (False, True):
        exchange = Exchange(app, PATH, asking(words=8, stream=stream))
        async with trio.open_nursery() as callers:
            callers.start_soon(exchange.run)
            await trio.sleep(1.1)
            exchange.leave()
    assert trio.current_time() == 2.2
    total = (await counts(app))["total"]
    assert (total["calls"], total["finished"], total["cancelled"]) == (2, 0, 2)
    assert total["output_tokens"] == 4 + 4


@pytest.mark.usefixtures("autojump_clock")
async def test_a_caller_who_leaves_while_held_is_counted_too() -> None:
    app = build_app(InferenceSettings(hold=True))
    exchange = Exchange(app, PATH, asking(words=8))
    async with trio.open_nursery() as callers:
        callers.start_soon(exchange.run)
        await wait_all_tasks_blocked()
        exchange.leave()
    assert (await counts(app))["total"]["cancelled"] == 1
    assert exchange.status is None


@pytest.mark.usefixtures("autojump_clock")
async def test_a_token_is_there_at_its_very_moment_whatever_the_rounding() -> None:
    assert 1 / 49 * 49 < 1
    app = build_app(InferenceSettings(tokens_per_s=49))
    exchange = Exchange(app, PATH, asking(words=8))
    async with trio.open_nursery() as callers:
        callers.start_soon(exchange.run)
        await trio.sleep(1 / 49)
        exchange.leave()
    assert (await counts(app))["total"]["output_tokens"] == 1


async def test_the_worker_counts_calls_and_tokens_for_each_capture_key() -> None:
    app = build_app(InferenceSettings())
    async with client(app) as caller:
        for key, words in (("0-0", 3), ("0-0", 4), ("1-0-a2", 5)):
            await caller.post(PATH, json=asking(words=words), headers={"x-capture-key": key})
        await caller.post(PATH, json=asking(words=6))
    seen = await counts(app)
    assert seen["held"] is False
    assert seen["in_flight"] == 0
    assert (seen["total"]["calls"], seen["total"]["output_tokens"]) == (4, 18)
    by_key = {key: (one["calls"], one["output_tokens"]) for key, one in seen["by_capture_key"].items()}
    assert by_key == {"0-0": (2, 7), "1-0-a2": (1, 5)}
    assert seen["total"]["input_tokens"] == (2 + 3 + 1) + (2 + 4 + 1) + (2 + 5 + 1) + (2 + 6 + 1)


@pytest.mark.usefixtures("autojump_clock")
async def test_every_call_is_on_paper_when_it_ended_whichever_way(tmp_path) -> None:
    app = build_app(InferenceSettings(tokens_per_s=4.0, calls_file=str(tmp_path / "calls.jsonl")))
    async with client(app) as caller:
        await caller.post(PATH, json=asking(words=8), headers={"x-capture-key": "0-0"})
    exchange = Exchange(app, PATH, asking(words=8))
    async with trio.open_nursery() as callers:
        callers.start_soon(exchange.run)
        await trio.sleep(1.1)
        exchange.leave()
    lines = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert lines == [
        {"capture_key": "0-0", "finished": True, "input_tokens": 11, "output_tokens": 8},
        {"capture_key": None, "finished": False, "input_tokens": 11, "output_tokens": 4},
    ]


class HungUpWhenServed(Exchange):
    """A caller that has all it wanted, seen by a server that is still busy with the last bytes."""

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.leave()
            await wait_all_tasks_blocked()
        await super()._send(message)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_hangs_up_once_it_has_everything_was_served(stream: bool) -> None:  # noqa: FBT001  # a parameter
    app = build_app(InferenceSettings())
    await HungUpWhenServed(app, PATH, asking(words=4, stream=stream)).run()
    total = (await counts(app))["total"]
    assert (total["finished"], total["cancelled"], total["output_tokens"]) == (1, 0, 4)


async def test_what_is_no_request_is_refused_in_openais_shape_and_not_counted() -> None:
    app = build_app(InferenceSettings())
    async with client(app) as caller:
        for body in (b"{}", b"{", b'{"input":' + b"[" * 100_000):
            reply = await caller.post(PATH, content=body)
            assert reply.status_code == 400
            assert reply.json()["error"]["type"] == "invalid_request_error"
    assert (await counts(app))["total"]["calls"] == 0


@pytest.mark.usefixtures("autojump_clock")
async def test_a_call_that_is_made_again_as_its_answer_was_lost_can_be_cut(tmp_path) -> None:
    async def inline(work):
        return work()

    settings = InferenceSettings(tokens_per_s=4.0, staging=str(tmp_path / "staging"))
    app, named = build_app(settings, inline), {CALL_ID: "c1"}
    await Exchange(app, PATH, asking(words=4), named).run()
    async with client(app) as caller, trio.open_nursery() as again:
        again.start_soon(Exchange(app, PATH, asking(words=4), named).run)
        await trio.sleep(0.5)
        receipt = (await caller.post("/v1/cuts", json={"freeze": "f", "calls": ["c1", "c2"]})).json()
        again.cancel_scope.cancel()
    one, other = receipt["calls"]
    assert (one["outcome"], one["tokens"], other["why"]) == ("cut", 2, "it is not here")
    assert Staging(tmp_path / "staging").fetch(one["key"]).text == "a b"


async def test_a_freeze_that_would_turn_the_time_back_is_refused(tmp_path) -> None:
    async with client(build_app(InferenceSettings(staging=str(tmp_path)))) as caller:
        reply = await caller.post("/v1/cuts", json={"freeze": "f", "calls": [], "frozen_ms": -1})
    assert reply.status_code == 400
