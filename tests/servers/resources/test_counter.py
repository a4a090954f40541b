"""The counter: where it stands after any calls, and what a report of it earns."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.servers.resources.counter import Counter, CounterSource, start, verify

SEEDS = st.integers(0, 2**48 - 1)
CALLS = st.lists(
    st.tuples(st.sampled_from(["increment", "decrement", "get_value"]), st.integers(1, 1_000_000))
)
ROUND_TRIP = msgspec.json.Decoder(Counter)


def played(state: Counter, calls: list[tuple[str, int]]) -> Counter:
    for tool, amount in calls:
        arguments = b"{}" if tool == "get_value" else json.dumps({"amount": amount}).encode()
        step = CounterSource().call(state, tool, arguments)
        assert step.output == step.state.value
        state = step.state
    return state


@given(SEEDS, CALLS)
def test_the_value_is_the_start_and_every_change_and_reading_changes_nothing(
    seed: int, calls: list[tuple[str, int]]
) -> None:
    sign = {"increment": 1, "decrement": -1, "get_value": 0}
    after = played(start(seed), calls)
    assert after.value == seed % 1000 + sum(sign[tool] * amount for tool, amount in calls)
    assert after.effects == sum(tool != "get_value" for tool, _ in calls)
    assert after.seed == seed


@given(SEEDS, CALLS, CALLS)
def test_a_state_written_down_between_two_calls_goes_on_as_if_nothing_had_been(
    seed: int, before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    halfway = played(start(seed), before)
    restored = ROUND_TRIP.decode(msgspec.json.encode(halfway))
    assert played(restored, after) == played(start(seed), before + after)


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("increment", b"{}", "amount"),
        ("increment", b'{"amount": "three"}', "Expected `int`"),
        ("decrement", b'{"amount": 0}', ">= 1"),
        ("increment", b'{"amount": 1, "twice": true}', "twice"),
        ("get_value", b'{"amount": 1}', "amount"),
        ("increment", b"three", "malformed"),
    ],
)
def test_arguments_that_a_tool_does_not_take_are_refused_in_words(
    tool: str, arguments: bytes, complaint: str
) -> None:
    with pytest.raises(msgspec.DecodeError, match=complaint):
        CounterSource().call(start(5), tool, arguments)


def test_a_report_earns_its_reward_only_with_the_right_value_and_the_right_moves() -> None:
    counter = Counter(seed=10, value=15, effects=2)
    assert verify(counter, "The value is 15.", 5).reward == 1.0
    assert verify(counter, "The value is 15.", None).reward == 1.0
    assert verify(counter, "The value is 14.", 5).reward == 0.0
    assert verify(counter, "The value is 15.", 6).reward == 0.0
    assert verify(counter, "", 5).reward == 0.0


def test_no_two_counters_begin_alike() -> None:
    assert len({CounterSource().begin(b"{}").seed for _ in range(50)}) == 50
