"""What counts as the last words of a rollout."""

import json

import msgspec
import pytest

from triocollect.servers.resources.answer import final_answer


def said(text: object) -> dict:
    return {"type": "message", "role": "assistant", "content": text}


def request(*output: dict) -> bytes:
    return json.dumps({"response": {"output": output}}).encode()


CALL = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "1"}
THOUGHT = {"type": "reasoning", "summary": [], "content": None}


def test_the_last_message_is_the_answer() -> None:
    assert final_answer(request(said("one"), CALL, RESULT, said("two"))) == "two"


def test_a_thought_after_the_message_takes_nothing_away() -> None:
    assert final_answer(request(said("two"), THOUGHT)) == "two"


def test_a_rollout_cut_off_among_its_tool_calls_has_answered_nothing() -> None:
    assert final_answer(request(said("I will count"), CALL, RESULT)) == ""
    assert final_answer(request()) == ""


def test_the_text_parts_of_a_message_are_joined_and_a_refusal_says_nothing() -> None:
    parts = [
        {"type": "output_text", "text": "a", "annotations": []},
        {"type": "refusal", "refusal": "no", "text": "no"},
        {"type": "output_text", "text": "b"},
    ]
    assert final_answer(request(said(parts))) == "ab"


def test_a_request_without_a_response_is_refused_by_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="response"):
        final_answer(b"{}")
