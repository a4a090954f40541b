"""What the scripted model says, and that it always says the same."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.servers.inference import script
from triocollect.servers.inference.conversation import read
from triocollect.servers.inference.moves import AT_A_LOSS, Answer, ToolCall
from triocollect.servers.inference.reckoning import calculate
from triocollect.servers.inference.tokens import pieces

TOOLS = [{"type": "function", "name": name} for name in ("increment", "decrement", "get_value")]
PLAN = "Add 3, then 4, then subtract 2, then report the value."


def decide(task: str, *after: dict, **fields: object) -> Answer | ToolCall:
    items = [{"role": "user", "content": task}, *after]
    return script.decide(read(json.dumps({"input": items, **fields}).encode()))


def turn(nth: int, output: str) -> list[dict]:
    return [
        {"type": "function_call", "call_id": f"c{nth}", "name": "increment", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c{nth}", "output": output},
    ]


def some(task: str, **fields: object) -> set[Answer | ToolCall]:
    """Everything the model says to a task under forty seeds."""
    return {decide(task, seed=seed, **fields) for seed in range(40)}


def some_after(task: str, history: list[dict], **fields: object) -> set[Answer | ToolCall]:
    return {decide(task, *history, seed=seed, **fields) for seed in range(40)}


def test_a_plan_is_played_call_by_call_by_counting_the_results() -> None:
    history, calls = [], []
    while isinstance(call := decide(PLAN, *history, tools=TOOLS), ToolCall):
        calls.append((call.name, json.loads(call.arguments)))
        history += turn(len(calls), '{"output":105}')
    assert calls == [
        ("increment", {"amount": 3}),
        ("increment", {"amount": 4}),
        ("decrement", {"amount": 2}),
        ("get_value", {}),
    ]
    assert call.text in ("The value is 105.", "The value is 106.")


def test_any_tool_of_the_row_is_called_so_often_and_its_last_word_is_said() -> None:
    tools, history, calls = [{"type": "function", "name": "throw"}], [], 0
    while isinstance(call := decide("Call throw 8 times.", *history, tools=tools), ToolCall):
        assert call == ToolCall("throw", "{}")
        calls += 1
        history += turn(calls, f"a 3, {3 * calls} in all")
    assert (calls, call) == (8, Answer("a 3, 24 in all"))
    assert decide("Call catch 8 times.", tools=tools) == AT_A_LOSS


def test_a_number_of_thousands_of_digits_is_read_too() -> None:
    for said in ("7" * 5000, '{"rows":[[' + "7" * 5000 + "]]}"):
        history = [item for nth in range(4) for item in turn(nth, said)]
        assert isinstance(decide(PLAN, *history, tools=TOOLS), Answer)
        plan = (
            "Begin a transaction, add 5 to amber, keep the transaction, then say how many there are in all."
        )
        query = [{"type": "function", "name": "query"}]
        assert all(isinstance(one, Answer) for one in some_after(plan, history + turn(4, said), tools=query))


def test_a_value_below_zero_is_reported_as_such() -> None:
    history = [item for nth in range(4) for item in turn(nth, '{"output":-7}')]
    reports = {decide(PLAN, *history, tools=TOOLS, seed=seed) for seed in range(40)}
    assert reports == {Answer("The value is -7."), Answer("The value is -6.")}


def test_a_new_question_begins_a_new_count() -> None:
    history = [*turn(1, "5"), {"role": "user", "content": PLAN}]
    assert decide(PLAN, *history, tools=TOOLS) == ToolCall("increment", '{"amount":3}')


def test_a_plan_without_its_tools_is_not_played() -> None:
    assert decide(PLAN, tools=TOOLS[:1]) == AT_A_LOSS


def test_a_plan_whose_last_result_is_no_number_ends_at_a_loss() -> None:
    history = [item for nth in range(4) for item in turn(nth, "broken")]
    assert decide(PLAN, *history, tools=TOOLS) == AT_A_LOSS


def test_arithmetic_is_right_or_off_by_one_as_the_seed_falls() -> None:
    texts = {answer.text for answer in some("What is 2 + 3 * 4 - 5?")}
    assert {re.search(r"boxed\{(.*)\}", text)[1] for text in texts} == {"9", "10"}


def test_a_text_is_repeated_or_spoiled_as_the_seed_falls() -> None:
    assert some("Repeat exactly: one\n two") == {Answer("one\n two"), Answer("one\n two and so on")}


def test_a_task_of_no_known_kind_is_answered_too() -> None:
    assert some("Tell me a story") == {AT_A_LOSS}
    assert decide("") == AT_A_LOSS


def test_what_tools_answer_does_not_change_whether_the_rollout_ends_right() -> None:
    def off(value: int, seed: int) -> int:
        history = [item for nth in range(4) for item in turn(nth, str(value))]
        return int(re.search(r"\d+", decide(PLAN, *history, tools=TOOLS, seed=seed).text)[0]) - value

    for seed in range(20):
        assert len({off(value, seed) for value in (5, 77, 901)}) == 1


@pytest.mark.parametrize("place", ["top", "extra_body"])
def test_a_seed_is_heard_at_either_place(place: str) -> None:
    def say(seed: int) -> Answer | ToolCall:
        if place == "top":
            return decide("What is 1 + 1?", seed=seed)
        return decide("What is 1 + 1?", metadata={"extra_body": json.dumps({"seed": seed})})

    assert len({say(seed) for seed in range(40)}) == 2
    assert say(3) == decide("What is 1 + 1?", seed=3)


def test_an_extra_body_that_is_no_json_is_passed_over() -> None:
    assert decide("What is 1 + 1?", metadata={"extra_body": "seed=3"}) == decide("What is 1 + 1?")


def test_a_request_is_the_same_whatever_its_key_order_and_however_it_is_delivered() -> None:
    one = read(b'{"input": "hi", "model": "m", "stream": true}')
    other = read(b'{"model":"m","input":"hi"}')
    assert one.digest == other.digest
    assert one.digest != read(b'{"input": "hi", "model": "n"}').digest
    assert (one.stream, other.stream) == (True, False)


def test_input_of_every_shape_is_read() -> None:
    parts = [{"type": "input_text", "text": "Repeat "}, {"type": "input_text", "text": "exactly: x"}]
    conversation = read(
        json.dumps({"input": [{"type": "reasoning", "summary": []}, {"content": parts}]}).encode()
    )
    assert conversation.task == "Repeat exactly: x"
    assert conversation.input_tokens == 3
    assert read(b'{"input": "Repeat exactly: x"}').task == conversation.task


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"{", b'{"input": 3}', b'{"input": [], "max_output_tokens": 0}']
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read(body)


@given(st.lists(st.integers(0, 10**15 - 1), min_size=1, max_size=8), st.data())
def test_a_question_is_calculated_as_python_does(numbers: list[int], data: st.DataObject) -> None:
    question = str(numbers[0])
    for number in numbers[1:]:
        question += f" {data.draw(st.sampled_from('+-*'))} {number}"
    assert calculate(question) == eval(question)


@given(st.text())
def test_the_tokens_of_a_text_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
