"""The shipped rows: always the same bytes, and fit for the servers they name."""

import json

import pytest

from triocollect.deployment import datasets
from triocollect.deployment.datasets.generate import lines
from triocollect.errors import UsageError
from triocollect.servers.inference import script
from triocollect.servers.inference.conversation import read
from triocollect.servers.inference.moves import Answer, ToolCall
from triocollect.servers.inference.reckoning import calculate
from triocollect.servers.resources import (
    blackjack,
    counter,
    exact_match,
    instructions,
    json_schema,
    multiple_choice,
    numeric,
    sql,
)
from triocollect.servers.resources.source import Verifier


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in datasets.path(name).read_bytes().splitlines()]


def task(row: dict) -> str:
    return row["responses_create_params"]["input"][-1]["content"]


def answer(row: dict) -> str:
    decision = script.decide(read(json.dumps(row["responses_create_params"]).encode()))
    assert isinstance(decision, Answer)
    return decision.text


@pytest.mark.parametrize("name", datasets.NAMES)
def test_the_shipped_file_is_what_the_generator_makes(name: str) -> None:
    assert datasets.path(name).read_bytes() == lines(name)


@pytest.mark.parametrize("name", datasets.NAMES)
def test_a_data_set_has_120_rows_or_more_and_no_two_ask_the_same(name: str) -> None:
    assert len(rows(name)) >= 120
    assert len({task(row) for row in rows(name)}) == len(rows(name))


def test_a_data_set_that_does_not_exist_is_named_beside_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"'arithmetics'.*arithmetic, blackjack, counter"):
        datasets.path("arithmetics")


def test_every_arithmetic_answer_is_what_python_makes_of_the_question() -> None:
    for row in rows("arithmetic"):
        question = task(row).removeprefix("What is ").partition("?")[0]
        assert row["expected_answer"] == eval(question)  # our own shipped file
        assert row["expected_answer"] == calculate(question)


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


def played(row: dict, source, state) -> tuple[str, object, list[ToolCall]]:
    """The last words, the state and the calls of a rollout of this row, without any server."""
    params, calls = row["responses_create_params"], []
    history = list(params["input"])
    while True:
        move = script.decide(read(json.dumps({**params, "input": history}).encode()))
        if isinstance(move, Answer):
            return move.text, state, calls
        calls.append(move)
        state, output = source.call(state, move.name, move.arguments.encode())
        history.append(
            {"type": "function_call_output", "output": json.dumps({"output": output}).replace(": ", ":")}
        )


def test_the_scripted_model_earns_most_of_the_rewards_of_a_data_set_but_not_all() -> None:
    verifiers = {
        "arithmetic": Verifier(numeric.Expected, numeric.verify),
        "echo": Verifier(exact_match.Expected, exact_match.verify),
        "multiple_choice": Verifier(multiple_choice.Expected, multiple_choice.verify),
        "instructions": Verifier(instructions.Expected, instructions.verify),
        "json_schema": Verifier(json_schema.Expected, json_schema.verify),
    }
    for name, verifier in verifiers.items():
        rewards = [verifier.verify(None, answer(row), json.dumps(row).encode()).reward for row in rows(name)]
        assert 0.65 < sum(rewards) / len(rewards) < 0.95, name


def test_a_sql_plan_takes_several_statements_and_its_own_solution_is_what_the_row_wants() -> None:
    source, rewards, lengths = sql.SqlSource(), [], set()
    for row in rows("sql"):
        body = json.dumps(row).encode()
        words, state, calls = played(row, source, source.begin(body))
        lengths.add(len(calls))
        rewards.append(source.verify(state, words, body).reward)
    assert 0.65 < sum(rewards) / len(rewards) < 0.95
    assert min(lengths) >= 3
    assert max(lengths) >= 8


def test_hands_of_blackjack_are_played_to_their_end_and_some_are_won() -> None:
    source, rewards = blackjack.BlackjackSource(), []
    for seed, row in enumerate(rows("blackjack")):
        words, state, calls = played(row, source, blackjack.Blackjack(seed))
        assert f" of {row['hands']} hands" in words
        assert len(state.outcomes) == row["hands"]
        assert len(calls) == state.effects, "every move was one that there is"
        rewards.append(source.verify(state, words, json.dumps(row).encode()).reward)
    assert 0.2 < sum(rewards) / len(rewards) < 0.6
