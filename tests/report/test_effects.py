"""Whether what was done to an environment is one unbroken line, whatever attempts it took."""

import json

import pytest

from triocollect.errors import UsageError
from triocollect.protocol.ids import EpisodeId
from triocollect.report.effects import Effect, Effects, line_of


def attempt(nth: int, first: int, last: int, seed: int = 7) -> list[Effect]:
    return [Effect(nth, number, seed) for number in range(first, last + 1)]


def test_an_uninterrupted_rollout_is_one_line() -> None:
    line = line_of(attempt(0, 0, 3), 0, 3)
    assert (line.effects, line.went_on, line.carried, line.lost, line.fault) == (3, False, 0, 0, None)


def test_a_rollout_that_was_cut_twice_is_one_line_over_its_attempts() -> None:
    effects = attempt(0, 0, 2) + attempt(1, 3, 3) + attempt(2, 4, 6)
    line = line_of(effects, 2, 6)
    assert (line.effects, line.went_on, line.carried, line.lost, line.fault) == (6, True, 3, 0, None)


def test_an_attempt_that_had_nothing_left_to_do_still_goes_on() -> None:
    line = line_of(attempt(0, 0, 3), 1, 3)
    assert (line.went_on, line.carried, line.fault) == (True, 3, None)


def test_what_was_done_after_the_cut_and_died_is_lost_and_no_fault() -> None:
    line = line_of(attempt(0, 0, 4) + attempt(1, 3, 6), 1, 6)
    assert (line.effects, line.carried, line.lost, line.fault) == (6, 2, 2, None)


def test_a_rollout_that_began_anew_has_lost_what_it_had_done() -> None:
    line = line_of(attempt(0, 0, 2, seed=7) + attempt(1, 0, 3, seed=8), 1, 3)
    assert (line.effects, line.went_on, line.carried, line.lost, line.fault) == (3, False, 0, 2, None)


def test_one_goes_on_from_an_older_cut_than_the_attempt_before_did() -> None:
    effects = attempt(0, 0, 2) + attempt(1, 0, 5, seed=8) + attempt(2, 3, 4)
    line = line_of(effects, 2, 4)
    assert (line.effects, line.carried, line.lost, line.fault) == (4, 2, 5, None)


@pytest.mark.parametrize(
    ("effects", "last", "fault"),
    [
        (attempt(0, 0, 1) + attempt(1, 3, 4), 4, "effect 2 of 4 is missing"),
        (attempt(1, 3, 4), 4, "beginning is missing"),
        (attempt(0, 0, 2, seed=7) + attempt(1, 3, 4, seed=8), 4, "beginning is missing"),
        (attempt(0, 0, 2) + attempt(1, 3, 4), 5, "effect 5 of 5 is missing"),
        (attempt(0, 0, 2) + attempt(1, 3, 4), 3, "more effects than the result's 3"),
        (attempt(1, 0, 2) + attempt(1, 2, 3), 3, "done twice: 0, 1, 2, 2, 3"),
        (attempt(0, 0, 2) + attempt(1, 3, 4) + attempt(2, 4, 4), 4, "later attempt"),
    ],
)
def test_what_is_no_unbroken_line_is_told(effects: list[Effect], last: int, fault: str) -> None:
    assert fault in (line_of(effects, 1, last).fault or "")


def test_without_the_result_s_own_count_gaps_still_show() -> None:
    assert line_of(attempt(0, 0, 3), 0, None).fault is None
    assert line_of(attempt(0, 0, 1) + attempt(1, 3, 4), 1, None).fault == "effect 2 of 4 is missing"


def test_a_folder_is_read_whole_and_what_is_damaged_is_named(tmp_path) -> None:
    state = {"seed": 7, "value": 7, "effects": 0}
    seed = {"rollout_id": "0-0", "attempt": 0, "effect": "seed", "arguments": {}, "state": state}
    added = seed | {"effect": "increment", "state": state | {"effects": 1}}
    (tmp_path / "counter.jsonl").write_text(f"{json.dumps(seed)}\n{json.dumps(added)}\nhalf a li\n")
    (tmp_path / "inference.jsonl").write_text("is not looked at here\n")
    effects = Effects(tmp_path)
    line = effects.line(EpisodeId("0-0", 0), 1)
    assert line is not None
    assert (line.effects, line.fault) == (1, None)
    [damage] = effects.damaged
    assert "counter.jsonl, line 3" in damage


def test_where_nothing_was_counted_nothing_is_judged(tmp_path) -> None:
    line = {"rollout_id": "0-0", "attempt": 0, "effect": "sql", "arguments": {}, "state": {"rows": 3}}
    (tmp_path / "sql.jsonl").write_text(json.dumps(line) + "\n")
    effects = Effects(tmp_path)
    assert effects.line(EpisodeId("0-0", 0), None) is None
    assert effects.line(EpisodeId("1-0", 0), None) is None


def test_a_session_without_a_state_is_no_damage_and_nothing_to_judge(tmp_path) -> None:
    line = {"rollout_id": "0-0", "attempt": 0, "effect": "seed", "arguments": {}, "state": None}
    (tmp_path / "numeric.jsonl").write_text(json.dumps(line) + "\n")
    effects = Effects(tmp_path)
    assert effects.damaged == []
    assert effects.line(EpisodeId("0-0", 0), None) is None


def test_a_folder_that_is_not_there_is_told(tmp_path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        Effects(tmp_path / "effects")
