"""The shipped rows: always the same bytes, and fit for the servers they name."""

import json

import pytest

from triocollect.deployment import datasets
from triocollect.deployment.datasets.generate import lines
from triocollect.errors import UsageError
from triocollect.servers.inference import script
from triocollect.servers.inference.conversation import read
from triocollect.servers.resources import counter, exact_match, numeric


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in datasets.path(name).read_bytes().splitlines()]


def task(row: dict) -> str:
    return row["responses_create_params"]["input"][-1]["content"]


def answer(row: dict) -> str:
    decision = script.decide(read(json.dumps(row["responses_create_params"]).encode()))
    assert isinstance(decision, script.Answer)
    return decision.text


@pytest.mark.parametrize("name", datasets.NAMES)
def test_the_shipped_file_is_what_the_generator_makes(name: str) -> None:
    assert datasets.path(name).read_bytes() == lines(name)


@pytest.mark.parametrize("name", datasets.NAMES)
def test_a_data_set_has_120_rows_or_more_and_no_two_ask_the_same(name: str) -> None:
    assert len(rows(name)) >= 120
    assert len({task(row) for row in rows(name)}) == len(rows(name))


def test_a_data_set_that_does_not_exist_is_named_beside_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"'arithmetics'.*arithmetic, counter, echo"):
        datasets.path("arithmetics")


def test_every_arithmetic_answer_is_what_python_makes_of_the_question() -> None:
    for row in rows("arithmetic"):
        question = task(row).removeprefix("What is ").partition("?")[0]
        assert row["expected_answer"] == eval(question)  # our own shipped file
        assert row["expected_answer"] == script.calculate(question)


def test_every_counter_plan_takes_three_to_eight_calls_of_declared_tools_and_moves_as_expected() -> None:
    lengths = set()
    for row in rows("counter"):
        steps = script.plan(task(row))
        lengths.add(len(steps))
        assert {step.name for step in steps} <= {
            tool["name"] for tool in row["responses_create_params"]["tools"]
        }
        source = counter.CounterSource()
        state = counter.start(0)
        for step in steps:
            state = source.call(state, step.name, step.arguments.encode()).state
        assert state.value == row["expected_change"]
    assert lengths == set(range(3, 9))


def test_the_scripted_model_earns_most_of_the_rewards_of_a_data_set_but_not_all() -> None:
    earned = [
        numeric.verify(answer(row), numeric.Expected(row["expected_answer"])).reward
        for row in rows("arithmetic")
    ]
    repeated = [
        exact_match.verify(answer(row), exact_match.Expected(row["expected_answer"])).reward
        for row in rows("echo")
    ]
    for rewards in (earned, repeated):
        assert 0.65 < sum(rewards) / len(rewards) < 0.95
