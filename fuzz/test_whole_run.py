"""Whatever happens to a run and its machine, every row ends with one result, played once from end to end."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from fuzz.simulation.living import live
from fuzz.simulation.network import Fault
from fuzz.simulation.story import Life, Moment, Order, Story, stories

MEMORY = Path("/dev/shm")  # where there is one, the disk is none


@pytest.fixture(autouse=True)
def _no_limit_of_attempts(monkeypatch):
    monkeypatch.setenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", "100")


def told(story):
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        return live(root, story)
    finally:
        shutil.rmtree(root)


@settings(max_examples=max(40, settings.default.max_examples // 5), deadline=None)
@given(stories)
def test_every_row_ends_with_one_result_whatever_happens(story):
    told(story)


def test_a_stop_a_checkpoint_a_death_and_a_full_stop():
    stopped = Life(orders=(Order(Moment(1500), "TERM"),))
    killed = Life(orders=(Order(Moment(700), "USR1"),), death=Moment(2000))
    cut_short = Life(death=Moment(15, "syncs"))
    oracle = told(Story(3, 256, 2.0, 1, 1, (stopped, killed, cut_short)))
    assert oracle.restored, "some rows have to go on from where they were"


@pytest.mark.parametrize("nth", range(1, 50, 3))
def test_a_stop_at_any_answer_between_servers_tears_nothing(nth):
    stopped = Life(orders=(Order(Moment(nth, "answers"), "TERM"),))
    oracle = told(Story(3, 256, 2.0, 500, 5, (stopped,)))
    assert oracle.counts["published"], "the stop has its checkpoint"


def test_a_tool_whose_answer_was_lost_at_the_cut_is_not_called_again():
    stopped = Life(
        orders=(Order(Moment(6, "answers"), "TERM"),), faults=frozenset({Fault("peer", 6, "reply lost")})
    )
    told(Story(1, 1, 2.0, 20, 5, (stopped,)))
