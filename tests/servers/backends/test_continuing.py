"""A call of a foreign backend is cut anywhere, and goes on as if nobody had cut it."""

import json

import httpx
import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from tests.servers.backends.scripted import KINDS, VLLM, LlamaCpp, SGLang
from tests.servers.backends.token_model import spelled
from triocollect.capture.staging import Staging
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.inference import Cut, Finished, NotCut
from triocollect.servers.model.backends.backend import Backend
from triocollect.servers.model.backends.known import Known
from triocollect.servers.model.calls import Call
from triocollect.servers.model.filed import FiledCut
from triocollect.servers.peers import Peer

pytestmark = pytest.mark.usefixtures("autojump_clock")

TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]


async def inline(work):
    return work()


def a_backend(server, folder, cuts="on", url="http://backend/v1"):
    known = Known(Peer("the backend", "http://backend", lambda _url: server), url, {}, None, cuts)
    return Backend(known, Staging(folder / "staging"), inline, cuts=cuts)


def a_call(**params):
    request = {"input": "How many?", "temperature": 0, "stream": True, **params}
    return Call("c1", EpisodeId("r"), json.dumps(request).encode(), None, "digest")


def continuing(call, cut):
    filed = FiledCut(request_sha256="digest", key=cut.key, tokens=cut.tokens)
    return replace(call, id="c2", cut=filed)


async def cut_at(backend, server, call, token):
    """What a checkpoint keeps of a call of which this many tokens had come; then the call's process ends."""
    await backend.known.found()
    server.hold_at = token
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backend.respond, call)
        await wait_all_tasks_blocked()
        (outcome,) = (await backend.cut([call], 60.0)).calls
        nursery.cancel_scope.cancel()
    server.hold_at = None
    return outcome


def told(answer):
    response = json.loads(answer.body)
    (message,) = response["output"]
    return message["content"][0]["text"], response["status"], response["usage"]


@pytest.mark.parametrize("stop", [None, "STO, P i", ["never", "b\na\u00e9"], "wo two two\na"])
@pytest.mark.parametrize("kind", KINDS)
async def test_wherever_it_is_cut_the_answer_is_that_of_an_uninterrupted_call(tmp_path, kind, stop):
    call = a_call(**({} if stop is None else {"stop": stop}))
    server = KINDS[kind]()
    backend = a_backend(server, tmp_path)
    whole, unstopped = told(await backend.respond(call)), told(await backend.respond(a_call()))[0]
    assert stop is None or whole[0] == unstopped.split(stop if isinstance(stop, str) else stop[1])[0]
    means = set()
    for token in range(1, whole[2]["output_tokens"]):
        cut = await cut_at(backend, server, call, token)
        if isinstance(cut, NotCut):
            assert cut.why in {"nothing of it has come yet", "no token of it can be given back"}
            continue
        assert 0 < cut.tokens <= token
        answer = await backend.respond(continuing(call, cut))
        assert told(answer)[:2] == whole[:2]
        assert told(answer)[2]["total_tokens"] == whole[2]["total_tokens"]
        assert told(answer)[2] == whole[2] or kind == "LlamaCpp"  # which leaves tokens out
        assert 0 < answer.continued_at <= cut.tokens
        means.add(answer.continued_by)
    assert means >= {"continue_final_message"} if kind == "SGLang" else means >= {"token_ids"}


async def test_a_cut_inside_a_character_and_inside_a_stop_string_loses_nothing_of_either(tmp_path):
    server, call = VLLM(), a_call(stop="P it four")
    backend, halves, lagging = a_backend(server, tmp_path), 0, 0
    for token in range(8, 30):
        cut = await cut_at(backend, server, call, token)
        staged = Staging(tmp_path / "staging").fetch(cut.key)
        whole = spelled(staged.token_ids).decode(errors="replace")
        halves += whole.endswith("\ufffd")
        lagging += whole != staged.text
    assert halves > 3
    assert lagging > 20  # so many characters are held back


class InOnePiece(VLLM):
    """Does not stream what goes on after ids."""

    def completions(self, body):
        return super().completions(body | {"stream": False})


async def test_a_rest_that_comes_in_one_piece_ends_at_the_stop_string_that_the_cut_is_inside(tmp_path):
    server, call = InOnePiece(), a_call(stop="wo two two\na")
    backend = a_backend(server, tmp_path)
    whole, goes_on = told(await backend.respond(call)), 0
    for token in range(1, whole[2]["output_tokens"]):
        cut = await cut_at(backend, server, call, token)
        if not isinstance(cut, NotCut):
            answer = await backend.respond(continuing(call, cut))
            if "stop" not in server.asked[-1][1]:
                goes_on += 1
                assert told(answer)[:2] == whole[:2]
    assert goes_on


@pytest.mark.parametrize("kind", KINDS)
async def test_a_limit_counts_what_came_before_the_cut(tmp_path, kind):
    call = a_call(max_output_tokens=9)
    server = KINDS[kind]()
    backend = a_backend(server, tmp_path)
    whole = told(await backend.respond(call))
    assert whole[1] == "incomplete"
    assert whole[2]["output_tokens"] == 9
    cut = await cut_at(backend, server, call, 6)
    assert told(await backend.respond(continuing(call, cut))) == whole
    cut = await cut_at(backend, server, call, 8)
    assert told(await backend.respond(continuing(call, cut))) == whole


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_that_goes_on_can_be_cut_again(tmp_path, kind):
    call, server = a_call(), KINDS[kind]()
    backend = a_backend(server, tmp_path)
    whole = told(await backend.respond(call))
    first = await cut_at(backend, server, call, 7)
    again = continuing(call, first)
    second = await cut_at(backend, server, again, 5)
    assert second.tokens > first.tokens
    assert told(await backend.respond(continuing(again, second))) == whole


async def test_ids_go_back_as_they_came_to_either_kind_of_path(tmp_path):
    for server, path in ((VLLM(), "/v1/completions"), (LlamaCpp(), "/completion")):
        backend, call = a_backend(server, tmp_path), a_call()
        cut = await cut_at(backend, server, call, 6)
        await backend.respond(continuing(call, cut))
        asked = [body for where, body in server.asked if where == path][-1]
        staged = Staging(tmp_path / "staging").fetch(cut.key)
        assert asked["prompt"][-len(staged.token_ids) :] == list(staged.token_ids)
        assert len(staged.logprobs) in {0, staged.tokens}


async def test_with_pictures_only_the_chat_goes_on_for_no_token_brings_them_back(tmp_path):
    class Seeing(VLLM):
        def prompt(self, body):
            texts = [one | {"content": str(one["content"])} for one in body["messages"]]
            return super().prompt(body | {"messages": texts})

    server, picture = Seeing(), {"type": "input_image", "image_url": "data:x"}
    call = a_call(input=[{"role": "user", "content": [picture]}])
    backend = a_backend(server, tmp_path)
    whole = told(await backend.respond(call))
    cut = await cut_at(backend, server, call, 8)
    answer = await backend.respond(continuing(call, cut))
    assert (told(answer), answer.continued_by) == (whole, "continue_final_message")


async def test_a_rest_that_a_parser_takes_for_reasoning_is_generated_again(tmp_path):
    class Expecting(SGLang):
        def chat_chunk(self, body, prompt, step):
            chunk = super().chat_chunk(body, prompt, step)
            if body.get("continue_final_message"):
                chunk["choices"][0]["delta"] = {"reasoning_content": step.text}
            return chunk

    server, call = Expecting(), a_call()
    backend = a_backend(server, tmp_path)
    whole = told(await backend.respond(call))
    cut = await cut_at(backend, server, call, 8)
    answer = await backend.respond(continuing(call, cut))
    assert (told(answer), answer.continued_by) == (whole, None)


async def test_with_tools_only_the_chat_goes_on_for_it_alone_reads_their_calls(tmp_path):
    server, call = VLLM(), a_call(tools=TOOLS)
    backend = a_backend(server, tmp_path)
    whole = told(await backend.respond(call))
    cut = await cut_at(backend, server, call, 8)
    answer = await backend.respond(continuing(call, cut))
    assert (told(answer), answer.continued_by) == (whole, "continue_final_message")


async def test_a_backend_that_has_lost_a_way_is_asked_by_the_next_and_then_from_the_start(tmp_path):
    server, call = VLLM(), a_call()
    backend = a_backend(server, tmp_path)
    whole = told(await backend.respond(call))
    cut = await cut_at(backend, server, call, 8)
    server.lacks = {"/v1/completions"}
    answer = await backend.respond(continuing(call, cut))
    assert (told(answer), answer.continued_by) == (whole, "continue_final_message")
    server.refuses = "continue_final_message"
    answer = await backend.respond(continuing(call, cut))
    assert (told(answer), answer.continued_by) == (whole, None)


ERROR_EVENT = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'


@pytest.mark.parametrize("fails_by", [None, b"", ERROR_EVENT], ids=["status", "broken stream", "error event"])
async def test_a_backend_that_fails_at_going_on_fails_no_call_that_it_answers_without_a_cut(
    tmp_path, fails_by
):
    class Failing(VLLM):
        def completions(self, body):
            if fails_by is None:
                return httpx.Response(500, json={"error": {"message": "prompt of ids"}})
            self.broken_after = 1, fails_by
            return super().completions(body)

        def chat(self, body):
            self.broken_after = None
            return super().chat(body)

    server, call = Failing(), a_call()
    backend = a_backend(server, tmp_path)
    whole = told(await backend.respond(call))
    cut = await cut_at(backend, server, call, 8)
    answer = await backend.respond(continuing(call, cut))
    assert (told(answer), answer.continued_by) == (whole, "continue_final_message")
    assert "/v1/completions" in [where for where, _ in server.asked]


@pytest.mark.parametrize("harm", ["gone", "another request"])
async def test_a_cut_that_cannot_be_used_is_generated_again(tmp_path, harm):
    server, call = VLLM(), a_call()
    backend = a_backend(server, tmp_path)
    again = continuing(call, await cut_at(backend, server, call, 8))
    if harm == "gone":
        (pack,) = (tmp_path / "staging").iterdir()
        pack.unlink()
    else:
        again = replace(again, request_sha256="else")
    answer = await backend.respond(again)
    assert answer.continued_by is None
    assert told(answer) == told(await backend.respond(call))


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"metadata": {"extra_body": '{"n": 2}'}}, "it asks for `n`"),
        ({"presence_penalty": 0.5}, "it asks for `presence_penalty`"),
        (
            {"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
            "it goes on after",
        ),
    ],
)
async def test_what_no_prefix_can_bring_back_is_not_cut(tmp_path, params, why):
    server, call = VLLM(), a_call(**params)
    cut = await cut_at(a_backend(server, tmp_path), server, call, 6)
    assert isinstance(cut, NotCut)
    assert cut.why.startswith(why)


async def test_an_answer_that_is_on_its_way_is_not_cut(tmp_path):
    server, call = VLLM(), a_call()
    backend = a_backend(server, tmp_path)
    tokens = told(await backend.respond(call))[2]["output_tokens"]
    server.hold_last = True
    assert isinstance(await cut_at(backend, server, call, tokens), Finished)


async def test_exact_goes_on_only_where_the_probe_has_shown_it_and_only_greedily(tmp_path):
    server, call = VLLM(), a_call()
    backend = a_backend(server, tmp_path, "exact")
    assert isinstance(await cut_at(backend, server, call, 6), Cut)
    assert isinstance(await cut_at(backend, server, a_call(temperature=1), 6), NotCut)

    class Drifting(SGLang):
        def prompt(self, body):
            return super().prompt(body)[: -2 if body.get("continue_final_message") else None]

    drifting = Drifting()
    assert isinstance(await cut_at(a_backend(drifting, tmp_path, "exact"), drifting, call, 6), NotCut)
    assert isinstance(await cut_at(a_backend(drifting, tmp_path), drifting, call, 6), Cut)
