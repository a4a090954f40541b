"""What is said in the Responses API, in chat completions; what is answered there, as a Response."""

import json

import msgspec
import pytest

from triocollect.errors import PeerError
from triocollect.servers.model.backends.answering import response_of
from triocollect.servers.model.backends.asking import chat_request
from triocollect.servers.model.backends.chunks import Piece, piece_of
from triocollect.servers.model.backends.generated import Generated, Prefix
from triocollect.servers.model.backends.streams import heard
from triocollect.servers.model.events import NOTHING, StreamEvent

LOOK = {
    "type": "function",
    "name": "look",
    "description": "d",
    "parameters": {"type": "object"},
    "strict": True,
}


def asked(**params):
    return {name: msgspec.Raw(json.dumps(value).encode()) for name, value in params.items()}


def chat(**params):
    return chat_request(asked(**params))


def test_a_conversation_is_one_message_a_turn():
    items = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": ""},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        {"role": "assistant", "content": "Done."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No more."}]},
    ]
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
    ]
    turn = {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": calls}
    assert chat(instructions="You play.", input=items)["messages"] == [
        {"role": "system", "content": "You play.\n\nBe brief."},
        {"role": "user", "content": "a\nb"},
        turn,
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "assistant", "content": "Done."},
        {"role": "assistant", "content": "No more."},
    ]


def test_pictures_stay_parts():
    part = {"type": "input_image", "image_url": "data:x", "detail": "low"}
    (message,) = chat(input=[{"role": "user", "content": [{"type": "input_text", "text": "see"}, part]}])[
        "messages"
    ]
    assert message["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
    ]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9},
            {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9},
        ),
        ({"stop": ["x"], "seed": 1, "top_k": 4}, {"stop": ["x"], "seed": 1, "top_k": 4}),
        ({"store": True, "truncation": "auto", "user": "u", "include": []}, {}),
        ({"temperature": None, "tools": None, "text": None, "metadata": None, "reasoning": None}, {}),
        ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, {}),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
        ),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True, "top_logprobs": 0}),
        (
            {"seed": 1, "metadata": {"extra_body": '{"seed": 2, "min_p": 0.1}', "note": "n"}},
            {"seed": 2, "min_p": 0.1},
        ),
        (
            {"metadata": {"chat_template_kwargs": '{"enable_thinking": false}'}},
            {"chat_template_kwargs": {"enable_thinking": False}},
        ),
        (
            {
                "tools": [LOOK],
                "tool_choice": {"type": "function", "name": "look"},
                "parallel_tool_calls": False,
            },
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {name: one for name, one in LOOK.items() if name != "type"},
                    }
                ],
                "tool_choice": {"type": "function", "function": {"name": "look"}},
                "parallel_tool_calls": False,
            },
        ),
    ],
)
def test_each_setting_has_its_word(params, said):
    request = chat(input="hi", model="m", **params)
    assert request == {"messages": [{"role": "user", "content": "hi"}], "model": "m", **said}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"previous_response_id": "r"}, "`previous_response_id`"),
        ({"tools": [{"type": "web_search"}]}, "tool of the type 'web_search'"),
        ({"tools": [LOOK], "tool_choice": {"type": "allowed_tools"}}, "tool choice"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input item of the type 'item_reference'"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "'input_file'"),
        ({"input": [3]}, "input item 3"),
        ({"input": [{"content": "hi"}]}, "message without a role"),
        ({"text": {"format": {"type": "grammar"}}}, "text format 'grammar'"),
        ({"metadata": {"extra_body": "{"}}, "metadata.extra_body is not JSON"),
        ({"metadata": {"extra_body": "[]"}}, "metadata.extra_body is no JSON object"),
    ],
)
def test_what_chat_completions_have_no_words_for_is_named(params, says):
    with pytest.raises(PeerError, match=says):
        chat(**({"input": "hi"} | params))


def answered(*chunks, tells=False, **params):
    answer = Generated(tells=tells)
    for chunk in chunks:
        answer.add(piece_of(json.dumps(chunk).encode()))
    return json.loads(response_of(asked(**params), answer, "c"))


def delta(finish=None, logprobs=None, **said):
    choice = {"index": 0, "delta": said, "finish_reason": finish, "logprobs": logprobs}
    return {"id": "x", "object": "chat.completion.chunk", "created": 7.5, "model": "m", "choices": [choice]}


USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8, "more": None},
}


def test_an_answer_is_a_response_with_all_that_the_api_names():
    response = answered(
        delta(role="assistant", content=""),
        delta(content="Hel"),
        delta(content="lo", finish="stop"),
        USAGE,
        instructions="i",
        temperature=0.5,
        metadata={"a": "b"},
        max_output_tokens=9,
    )
    text = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": None}
    message = {
        "id": "msg_c",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    usage = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    assert response == {
        "id": "resp_c",
        "object": "response",
        "created_at": 7,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": "i",
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "model": "m",
        "output": [message],
        "parallel_tool_calls": True,
        "temperature": 0.5,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": {**usage, **details},
    }


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_answer_that_was_ended_is_incomplete_and_says_why(finish, reason):
    response = answered(delta(content="Hel", finish=finish))
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert response["output"][0]["status"] == "incomplete"
    assert response["usage"] is None  # of which the backend tells nothing


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_an_item_before_the_message(name):
    response = answered(delta(**{name: "h"}), delta(**{name: "m"}), delta(content="Hi", finish="stop"))
    thought, message = response["output"]
    assert thought == {"id": "rs_c", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    assert message["content"][0]["text"] == "Hi"


def piece(index, **said):
    return delta(tool_calls=[({} if index is None else {"index": index}) | said])


@pytest.mark.parametrize("indexed", [True, False])
def test_tool_calls_are_put_together_from_their_pieces(indexed):
    zero, one = (0, 1) if indexed else (None, None)
    response = answered(
        piece(zero, id="a", type="function", function={"name": "look", "arguments": ""}),
        piece(zero, function={"arguments": '{"at":'}),
        piece(zero, function={"arguments": "1}"}),
        piece(one, id="b", type="function", function={"name": "go", "arguments": "{}"}),
        delta(finish="tool_calls"),
    )
    assert [(one["type"], one["call_id"], one["name"], one["arguments"]) for one in response["output"]] == [
        ("function_call", "a", "look", '{"at":1}'),
        ("function_call", "b", "go", "{}"),
    ]
    assert response["status"] == "completed"


def test_a_refusal_is_said_as_one():
    (message,) = answered(delta(refusal="I will"), delta(refusal=" not.", finish="stop"))["output"]
    assert message["content"] == [{"type": "refusal", "refusal": "I will not."}]


def test_an_empty_answer_is_an_empty_message():
    (message,) = answered(delta(content=None, finish="stop"))["output"]
    assert message["content"][0]["text"] == ""


def test_log_probabilities_are_told_to_those_who_ask_for_them():
    told = {"token": "Hi", "bytes": [72, 105], "logprob": -0.5, "top_logprobs": []}
    chunk = delta(content="Hi", finish="stop", logprobs={"content": [told]})
    assert answered(chunk, tells=True)["output"][0]["content"][0]["logprobs"] == [told]
    assert answered(chunk)["output"][0]["content"][0]["logprobs"] is None


def test_an_answer_in_one_piece_is_read_as_well():
    message = {
        "role": "assistant",
        "content": "Hi",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    }
    response = answered(
        {"object": "chat.completion", "choices": [{"message": message, "finish_reason": "tool_calls"}]}
    )
    assert [item["type"] for item in response["output"]] == ["message", "function_call"]


def test_odd_fields_are_read_as_they_are_meant():
    head = {"id": None, "object": None, "created": "7", "model": None, "choices": None, "usage": None}
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": {"at": 1}}}
    choice = {
        "index": None,
        "delta": {"role": "assistant", "tool_calls": [call], "x": []},
        "finish_reason": "",
    }
    usage = {"prompt_tokens": 5, "completion_tokens": None}
    response = answered(head, {"choices": [choice]}, delta(finish="tool_calls"), {"usage": usage})
    (item,) = response["output"]
    assert (item["name"], item["arguments"]) == ("look", '{"at":1}')
    assert response["created_at"] == 7


def test_bytes_that_are_none_are_the_backends_fault():
    told = {"token": "a", "bytes": [300], "id": 1}
    chunk = {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [told]}}]}
    with pytest.raises(PeerError, match="not understood"):
        piece_of(json.dumps(chunk).encode())


@pytest.mark.parametrize("count", [-1, 1 << 53, 10**400])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_usage_that_no_answer_can_have_is_the_backends_fault(name, count):
    with pytest.raises(PeerError, match=rf"not understood: .*usage\.{name}"):
        piece_of(json.dumps({"choices": [], "usage": {name: count}}).encode())


def test_a_prompt_that_is_shorter_than_what_it_ends_on_is_counted_as_nothing():
    answer = Generated(Prefix(text="one two", tokens=9))
    answer.add(piece_of(json.dumps(USAGE).encode()))
    assert answer.prompt_tokens is None


@pytest.mark.parametrize(
    "chunk",
    [
        {"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}},
        {"object": "error", "message": "out of memory", "code": 500},
        {"error": "out of memory"},
    ],
)
def test_an_error_in_the_middle_is_told_in_its_own_words(chunk):
    with pytest.raises(PeerError, match="out of memory"):
        piece_of(json.dumps(chunk).encode())


def test_the_end_of_an_answer_is_read_without_its_beginning():
    answer = Generated(Prefix(text="one two", tokens=2))
    for text in (" thr", "", "ee", " four"):
        answer.add(Piece(text=text))
    whole = "one two three four"
    assert [answer.text_after(chars) for chars in range(20)] == [whole[chars:] for chars in range(20)]


@pytest.mark.parametrize("kind", ["output_text", "reasoning_text", "refusal"])
def test_an_event_that_adds_nothing_fails_no_call(kind):
    event = StreamEvent(f"response.{kind}.delta", NOTHING, b'{"delta":null}')
    assert heard(event) == Piece()
