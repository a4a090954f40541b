"""The response object, whole and as a stream: the two say the same."""

import json

import msgspec
import pytest

from triocollect.servers.inference.conversation import read
from triocollect.servers.inference.reply import compose, frames

TOOLS = [{"type": "function", "name": name} for name in ("increment", "decrement", "get_value")]
QUESTION = {"input": "What is 2 + 3?", "model": "m"}
PLAN = {"input": "Add 3, then report the value.", "tools": TOOLS}


def whole(request: dict) -> dict:
    return json.loads(msgspec.json.encode(compose(read(json.dumps(request).encode())).response))


def streamed(request: dict) -> list[dict]:
    reply = compose(read(json.dumps(request).encode()))
    return [json.loads(frame.data.partition(b"data: ")[2]) for frame in frames(reply)]


def test_the_same_request_gets_the_same_response_to_the_byte() -> None:
    bodies = [msgspec.json.encode(compose(read(json.dumps(QUESTION).encode())).response) for _ in range(2)]
    assert bodies[0] == bodies[1]


def test_two_turns_of_a_rollout_have_ids_of_their_own() -> None:
    first = whole(PLAN)
    call = first["output"][0]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "8"}
    items = [{"role": "user", "content": PLAN["input"]}, call, result]
    second = whole(PLAN | {"input": items})
    assert second["output"][0]["name"] == "get_value"
    assert first["id"] != second["id"]
    assert call["call_id"] != second["output"][0]["call_id"]


def test_a_response_has_openais_fields_with_defaults_for_what_was_not_said() -> None:
    response = whole({"input": "hello there", "instructions": "be brief", "tools": None})
    assert response["object"] == "response"
    assert response["status"] == "completed"
    assert response["model"] == "scripted"
    assert (response["parallel_tool_calls"], response["tool_choice"], response["tools"]) == (True, "auto", [])
    assert response["instructions"] == "be brief"
    text = response["output"][0]["content"][0]["text"]
    assert response["usage"] == {
        "input_tokens": 4,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": len(text.split()),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 4 + len(text.split()),
    }


def test_what_the_request_says_is_repeated_as_it_came() -> None:
    said = PLAN | {"temperature": 0.5, "metadata": {"a": "b"}, "tool_choice": {"type": "function"}}
    response = whole(said)
    assert {key: response[key] for key in ("temperature", "metadata", "tool_choice", "tools")} == {
        key: said[key] for key in ("temperature", "metadata", "tool_choice", "tools")
    }


def test_an_answer_longer_than_the_limit_is_cut_off_and_says_so() -> None:
    response = whole({"input": "Repeat exactly: a b c d e f", "max_output_tokens": 3})
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["content"][0]["text"] == "a b c"
    assert response["usage"]["output_tokens"] == 3
    last = streamed({"input": "Repeat exactly: a b c d e f", "max_output_tokens": 3})[-1]
    assert (last["type"], last["response"]) == ("response.incomplete", response)


@pytest.mark.parametrize(
    ("request_", "kind", "place"),
    [
        (QUESTION, "response.output_text", "text"),
        (PLAN, "response.function_call_arguments", "arguments"),
    ],
)
def test_a_stream_adds_up_to_the_whole_response(request_: dict, kind: str, place: str) -> None:
    events = streamed(request_)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[0]["response"]["output"] == []
    assert (events[-1]["type"], events[-1]["response"]) == ("response.completed", whole(request_))
    deltas = [event["delta"] for event in events if event["type"] == f"{kind}.delta"]
    (done,) = [event for event in events if event["type"] == f"{kind}.done"]
    assert len(deltas) == whole(request_)["usage"]["output_tokens"]
    assert "".join(deltas) == done[place]
    (item,) = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item] == whole(request_)["output"]


def test_the_nth_delta_needs_n_tokens_and_the_end_needs_all() -> None:
    reply = compose(read(b'{"input": "Repeat exactly: a b c", "seed": 1}'))
    needs = [frame.after_tokens for frame in frames(reply)]
    total = len(reply.tokens)
    assert needs == [0] * 4 + list(range(1, total + 1)) + [total] * 4
