"""A run that is stopped, signalled or killed at any moment, and run again, is equal to one that never was.

Judged by the oracle of `fuzz/`: by what the environment and the model wrote down themselves. The servers are
new in every life.
"""

import json
import os
import random
import signal
import time

import pytest

from fuzz.oracle import judge, uninterrupted
from tests.processes.commands import until
from tests.processes.lives import PATIENCE_S, Lives
from triocollect.deployment import datasets

pytestmark = pytest.mark.processes

TOKENS_PER_S = 15.0  # a row takes half a second at least


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    """What each row takes when nobody interrupts it."""
    life, words = Lives(tmp_path_factory.mktemp("whole")).live()
    assert life.code == 0, words
    measured = uninterrupted(life)
    assert len(measured) == 20
    assert judge([life], measured) == []
    return measured


def signalled(number, pause_s=0.0):
    def then(run):
        time.sleep(pause_s)
        run.send_signal(number)

    return then


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_is_told_to_stop_goes_on_from_where_it_was(tmp_path, wholes, seed):
    dice, lives = random.Random(seed), Lives(tmp_path, tokens_per_s=TOKENS_PER_S)
    for _ in range(2):
        term = signalled(signal.SIGTERM, dice.uniform(0.0, 1.0 / TOKENS_PER_S))
        life, words = lives.live(lives.after(dice.randrange(1, 40), term))
        assert life.code == 75, words
        assert life.checkpoint is not None
        assert f"Checkpoint {life.checkpoint.id}: rows in flight go on from where they were cut." in words
        assert "To continue, give the same command again." in words
        assert not lives.pid_file.exists()
    life, words = lives.live()
    assert life.code == 0, words
    assert judge(lives.seen, wholes) == []
    assert any(life.checkpoint.kept for life in lives.seen), "a stop has to meet rows in flight"


def the_answers(folder):
    """What the model said, by row."""
    lines = map(json.loads, (folder / "out.jsonl").read_bytes().splitlines())
    return {(one["_ng_task_index"], one["_ng_rollout_index"]): one["response"] for one in lines}


def test_what_was_being_generated_goes_on_at_its_token_and_none_is_generated_twice(tmp_path):
    """Of rows that are one long answer each, so that a stop meets all of them in the middle of it."""
    lives = {}
    for name, rate in (("whole", None), ("stopped", TOKENS_PER_S)):
        (tmp_path / name).mkdir()
        data = datasets.path("instructions")
        lives[name] = Lives(tmp_path / name, data=data, rows=12, tokens_per_s=rate)
    life, words = lives["whole"].live()
    assert life.code == 0, words
    stopped = lives["stopped"]

    def act(run):
        assert until(lambda: run.poll() is not None or stopped.acknowledged, PATIENCE_S)
        run.send_signal(signal.SIGTERM)

    life, words = stopped.live(act)
    assert life.code == 75, words
    assert any(boundary.cut is not None for boundary in life.checkpoint.kept.values())
    life, words = stopped.live()
    assert life.code == 0, words
    assert judge(stopped.seen, uninterrupted(lives["whole"].seen[0])) == [], "the worker's own account"
    assert the_answers(tmp_path / "stopped") == the_answers(tmp_path / "whole")


def test_a_run_that_is_told_to_stop_as_soon_as_it_listens_still_goes_on_from_where_it_was(tmp_path, wholes):
    lives, term = Lives(tmp_path, tokens_per_s=TOKENS_PER_S), signalled(signal.SIGTERM)
    life, _ = lives.live(lives.after(20, term))
    kept = life.checkpoint.kept

    def act(run):
        assert until(lambda: run.poll() is not None or lives.pid_file.exists(), PATIENCE_S)
        term(run)

    life, words = lives.live(act)
    assert life.code == 75, words
    assert life.checkpoint.kept.keys() >= kept.keys() - life.finished
    life, words = lives.live()
    assert life.code == 0, words
    assert judge(lives.seen, wholes) == []


def test_a_term_to_the_whole_process_group_is_a_stop_as_any_other(tmp_path, wholes):
    """As a scheduler sends it: to the servers as well."""
    lives = Lives(tmp_path, tokens_per_s=TOKENS_PER_S)
    life, words = lives.live(lives.after(20, lambda run: os.killpg(run.pid, signal.SIGTERM)))
    assert life.code == 75, words
    assert life.checkpoint is not None
    assert life.checkpoint.kept
    life, words = lives.live()
    assert life.code == 0, words
    assert judge(lives.seen, wholes) == []


def test_a_checkpoint_that_stops_nothing_repeats_nothing(tmp_path, wholes):
    lives = Lives(tmp_path, tokens_per_s=TOKENS_PER_S)
    life, words = lives.live(lives.after(20, signalled(signal.SIGUSR1)))
    assert life.code == 0, words
    assert life.checkpoint is not None
    assert life.checkpoint.kept
    assert judge(lives.seen, wholes) == []


def test_a_collector_that_dies_anywhere_in_a_publish_loses_no_more_than_was_after_the_last(tmp_path, wholes):
    lives = Lives(tmp_path, tokens_per_s=TOKENS_PER_S)
    life, _ = lives.live(lives.after(4, signalled(signal.SIGTERM)))
    assert life.code == 75
    for step in (1, 2, 3, 4, 6):  # the folder, the collection, LATEST, and on the way of what is old
        life, words = lives.live(lives.after(6, signalled(signal.SIGUSR1)), dies_at=step)
        assert life.code == -signal.SIGKILL, words
    life, words = lives.live()
    assert life.code == 0, words
    assert judge(lives.seen, wholes) == []
    assert len({life.checkpoint.id for life in lives.seen}) > 1, "some deaths have to come after LATEST moved"


def test_rows_that_were_played_again_are_not_equal_to_rows_that_went_on(tmp_path, wholes):
    lives = Lives(tmp_path, tokens_per_s=TOKENS_PER_S)
    life, _ = lives.live(lives.after(20, signalled(signal.SIGTERM)))
    assert life.code == 75
    (tmp_path / "ckpt/LATEST").unlink()
    life, words = lives.live()
    assert life.code == 0, words
    assert all(line.reward == wholes[line.rollout_id].reward for line in life.lines), "no result shows it"
    violations = judge(lives.seen, wholes)
    assert any("the seed changed: begun anew after" in what for what in violations), violations
    assert any("calls are more than" in what for what in violations), violations


def test_a_restart_that_is_killed_on_its_way_again_and_again_continues_what_the_stop_cut(tmp_path, wholes):
    lives = Lives(tmp_path, tokens_per_s=TOKENS_PER_S)
    life, _ = lives.live(lives.after(20, signalled(signal.SIGTERM)))
    assert life.code == 75
    for step in (4, 5, 6):  # the run file, the epoch, the dispatch log
        life, words = lives.live(dies_at=-step)
        assert life.code == -signal.SIGKILL, words
    life, words = lives.live()
    assert life.code == 0, words
    assert judge(lives.seen, wholes) == []
