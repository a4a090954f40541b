"""What is found out about a backend, and how calls fare there whatever it does."""

import json
from itertools import pairwise

import httpx
import pytest
import trio
import trio.testing

from tests.servers.backends.scripted import KINDS, VLLM, LlamaCpp, Scripted, SGLang
from tests.servers.backends.test_continuing import a_backend, a_call, continuing, cut_at, told
from triocollect.errors import PeerError
from triocollect.protocol.inference import Cut, NotCut
from triocollect.servers.model.backends.probe import STEP_S
from triocollect.servers.peers import LINGER_S

pytestmark = pytest.mark.usefixtures("autojump_clock")

RESPONSE = {"id": "r", "output": [], "usage": {"input_tokens": 1, "output_tokens": 2}}
EVENTS = {
    "text": {"type": "response.output_text.delta", "delta": "One two"},
    "end": {"type": "response.completed", "response": RESPONSE},
}


class Both(SGLang):
    """Has the Responses API too."""

    def paths(self):
        return super().paths() | {"/v1/responses": self.responses}

    def responses(self, body):
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self.events())

    async def events(self):
        yield self.event(EVENTS["text"])
        if self.hold_at is not None:
            await trio.sleep_forever()
        yield self.event(EVENTS["end"])


class Prefilling(LlamaCpp):
    """Tells no ids, and goes on after a last message of the assistant."""

    def logprobs(self, body, ids):
        return {}


CHAT, AGAIN = "calls go to /v1/chat/completions", "a cut call is generated again"


@pytest.mark.parametrize(
    ("server", "found"),
    [
        (VLLM(), ("on", "tiny (vllm)", CHAT, "token_ids, else continue_final_message")),
        (SGLang(), ("on", "tiny (sglang)", CHAT, "continue_final_message")),
        (LlamaCpp(), ("on", "tiny (llamacpp)", CHAT, "token_ids, else text_prefix")),
        (LlamaCpp(lacks={"/completion"}), ("on", "tiny (llamacpp)", CHAT, "text_prefix")),
        (Prefilling(), ("on", "tiny (llamacpp)", CHAT, "text_prefix")),
        (Both(), ("on", "tiny (sglang)", "calls go to /v1/responses", "continue_final_message")),
        (VLLM(refuses="return_token_ids"), ("on", "tiny (vllm)", CHAT, "continue_final_message")),
        (Scripted(), ("on", "tiny (nobody)", CHAT, None)),
        (Scripted(lacks={"/v1/models"}), ("on", "models without a name", CHAT, None)),
        (VLLM(), ("off", "tiny (vllm)", CHAT, None)),
    ],
)
async def test_one_line_says_what_was_found(tmp_path, caplog, server, found):
    cuts, who, asked, means = found
    backend = a_backend(server, tmp_path, cuts)
    await backend.known.start()
    again = f"{AGAIN}, as cuts are off" if cuts == "off" else AGAIN
    goes_on = again if means is None else f"a cut call goes on by {means}"
    assert caplog.messages == [f"note: the backend serves {who}; {asked}; {goes_on}"]
    probed = len(server.asked)
    await backend.known.found()
    assert len(server.asked) == probed


@pytest.mark.parametrize("url", ["http://backend", "http://backend/", "http://backend/v1/"])
async def test_the_url_may_be_given_with_or_without_its_v1(tmp_path, url):
    backend = a_backend(VLLM(), tmp_path, url=url)
    assert (await backend.known.found()).chat == "/v1/chat/completions"
    assert told(await backend.respond(a_call()))[1] == "completed"


async def test_a_backend_that_is_not_up_yet_is_asked_again_by_the_first_call(tmp_path, caplog):
    server = VLLM()
    models = server.models
    server.models = lambda _body: httpx.Response(
        503, json={"error": {"message": "Loading model", "code": 503}}
    )
    backend = a_backend(server, tmp_path)
    await backend.known.start()
    (said,) = caplog.messages
    assert "Loading model" in said
    assert said.endswith("it is asked again for 120 s, and calls wait")
    with pytest.raises(PeerError, match="Loading model"):
        await backend.respond(a_call())
    server.models = models
    assert told(await backend.respond(a_call()))[1] == "completed"


async def test_calls_wait_for_a_backend_that_still_loads_its_model(tmp_path):
    server = VLLM()
    models = server.models

    def loading(body):
        up = trio.current_time() > 30
        return models(body) if up else httpx.Response(503, json={"error": {"message": "Loading model"}})

    server.models = loading
    backend = a_backend(server, tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backend.known.start)
        await trio.testing.wait_all_tasks_blocked()
        assert told(await backend.respond(a_call()))[1] == "completed"
    assert 30 < trio.current_time() < 32


async def test_calls_that_come_together_wait_once_for_a_backend_that_does_not_answer(tmp_path):
    server, faults = VLLM(), []
    answers = server.handle_async_request

    async def silent(_request):
        await trio.sleep_forever()

    async def ask(backend):
        with pytest.raises(PeerError, match="has not answered /v1/models") as caught:
            await backend.respond(a_call())
        faults.append((trio.current_time(), caught.value.passing))

    server.handle_async_request = silent
    backend = a_backend(server, tmp_path)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask, backend)
    assert faults == [(STEP_S, True)] * 5
    server.handle_async_request = answers
    assert told(await backend.respond(a_call()))[1] == "completed"


async def test_the_backend_is_told_which_model_where_nobody_else_says(tmp_path):
    server = Scripted()
    backend = a_backend(server, tmp_path)
    await backend.respond(a_call())
    await backend.respond(a_call(model="mine"))
    assert [body["model"] for path, body in server.asked[-2:]] == ["tiny", "mine"]


async def test_a_call_goes_without_what_only_we_want_where_the_backend_refuses_it(tmp_path):
    server = VLLM()
    backend = a_backend(server, tmp_path)
    await backend.known.found()
    server.refuses = "return_token_ids"
    assert told(await backend.respond(a_call()))[1] == "completed"


class Refusing(VLLM):
    """Says that it will not, and breaks off where it is asked for token ids."""

    def chat(self, body):
        if "messages" not in body or body["messages"][0]["content"] != "How many?":
            return super().chat(body)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self.no(body))

    async def no(self, body):
        said = {"index": 0, "delta": {"refusal": "I will not."}, "finish_reason": "stop"}
        yield self.event(self.head([said]))
        if body.get("return_token_ids"):
            yield b"data: {\n\n"


async def test_nothing_stays_of_a_first_answer_where_the_backend_is_asked_again(tmp_path):
    answer = await a_backend(Refusing(), tmp_path).respond(a_call())
    (message,) = json.loads(answer.body)["output"]
    assert [part["refusal"] for part in message["content"]] == ["I will not."]


class Lingering(SGLang):
    """Does not hang up when it has said all."""

    async def stream(self, *asked):
        async for data in super().stream(*asked):
            yield data
        if asked[0]["messages"][0]["content"] == "How many?":
            await trio.sleep_forever()


async def test_a_stream_that_stays_open_behind_the_answer_is_left_after_a_while(tmp_path):
    with trio.fail_after(60):
        answer = await a_backend(Lingering(), tmp_path).respond(a_call())
    assert told(answer)[1] == "completed"
    assert told(answer)[2]["output_tokens"] > 9
    assert trio.current_time() == LINGER_S


async def test_a_responses_api_is_used_as_it_is_and_a_cut_of_it_goes_on_as_a_chat(tmp_path):
    server, call = Both(), a_call()
    backend = a_backend(server, tmp_path)
    assert json.loads((await backend.respond(call)).body) == RESPONSE
    assert isinstance(await cut_at(backend, server, call, 1), Cut)
    assert isinstance(await cut_at(backend, server, a_call(previous_response_id="r"), 1), NotCut)


def a_reply(status, words):
    return lambda _body: httpx.Response(status, json={"error": {"message": words}})


@pytest.mark.parametrize(
    ("status", "passing"),
    [(302, False), (400, False), (404, False), (422, False), (429, True), (500, True), (503, True)],
)
async def test_a_refusal_is_told_in_the_backends_words(tmp_path, status, passing):
    server = VLLM()
    backend = a_backend(server, tmp_path)
    await backend.known.found()
    server.chat = a_reply(status, "maximum context length is 8")
    with pytest.raises(
        PeerError, match=rf"{status} to /v1/chat/completions: .*maximum context length"
    ) as caught:
        await backend.respond(a_call())
    assert caught.value.passing is passing


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", "ended its stream before the answer was complete"),
        (b'data: {"error": {"message": "CUDA error", "code": 500}}\n\n', "CUDA error"),
        (b'error: {"code": 500, "message": "CUDA error"}\n\n', "CUDA error"),
        (b"data: {not json\n\n", "not JSON"),
        (b'data: {"choices": 3}\n\n', "not understood"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_that_breaks_is_an_error_that_says_how(tmp_path, kind, sent, says):
    server = KINDS[kind]()
    backend = a_backend(server, tmp_path)
    await backend.known.found()
    server.broken_after = (5, sent)
    with pytest.raises(PeerError, match=says):
        await backend.respond(a_call())


class Torn(SGLang):
    """Sends its stream in pieces of this many bytes, with CRLF."""

    size = 1

    async def stream(self, *args):
        whole = b"".join([part async for part in super().stream(*args)]).replace(b"\n", b"\r\n")
        edges = [*range(0, len(whole), self.size), len(whole)]
        for start, end in pairwise(edges):
            yield whole[start:end]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_a_stream_may_be_torn_anywhere(tmp_path, size):
    server = Torn()
    server.size = size
    assert told(await a_backend(server, tmp_path).respond(a_call())) == told(
        await a_backend(SGLang(), tmp_path).respond(a_call())
    )


class KeptAlive(SGLang):
    """Has somebody between who sends events without data, so that the connection lives."""

    async def stream(self, *args):
        async for part in super().stream(*args):
            yield b"data:\n\n" + part


async def test_an_event_without_data_is_none(tmp_path):
    assert told(await a_backend(KeptAlive(), tmp_path).respond(a_call())) == told(
        await a_backend(SGLang(), tmp_path).respond(a_call())
    )


async def test_a_call_that_has_begun_a_tool_call_is_not_cut(tmp_path):
    class Calling(VLLM):
        def chat_chunk(self, body, prompt, step):
            chunk = super().chat_chunk(body, prompt, step)
            function = {"name": "look", "arguments": ""} if step.tokens == 5 else {"arguments": step.text}
            if body.get("tools") and step.tokens >= 5:
                chunk["choices"][0]["delta"] = {"tool_calls": [{"index": 0, "id": "t", "function": function}]}
            return chunk

    server, call = Calling(), a_call(tools=[{"type": "function", "name": "look"}])
    backend = a_backend(server, tmp_path)
    assert isinstance(await cut_at(backend, server, call, 4), Cut)
    outcome = await cut_at(backend, server, call, 6)
    assert isinstance(outcome, NotCut)
    assert outcome.why == "a tool call has begun"


class Thinking(VLLM):
    """Half of what it says is reasoning, in tags of its own that only its tokens show."""

    def chat_chunk(self, body, prompt, step):
        chunk = super().chat_chunk(body, prompt, step)
        if step.tokens <= 8:
            chunk["choices"][0]["delta"] = {"reasoning_content": step.text}
        return chunk


@pytest.mark.parametrize("tools", [False, True])
async def test_reasoning_goes_back_as_tokens_or_not_at_all(tmp_path, tools):
    server = Thinking()
    call = a_call(**({"tools": [{"type": "function", "name": "look"}]} if tools else {}))
    backend = a_backend(server, tmp_path)
    whole = json.loads((await backend.respond(call)).body)["output"]
    outcome = await cut_at(backend, server, call, 5)
    assert isinstance(outcome, NotCut)
    assert outcome.why == "it is in its reasoning"
    later = await cut_at(backend, server, call, 12)
    if tools:
        assert isinstance(later, NotCut)
        return
    answer = await backend.respond(continuing(call, later))
    thought, message = json.loads(answer.body)["output"]
    assert thought["summary"] == whole[0]["summary"]
    assert message["content"] == whole[1]["content"]
