"""Whatever happens to a run and its machine, every row ends with one result, played once from end to end."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from fuzz.simulation.living import live
from fuzz.simulation.story import Death, Life, Order, Story, stories

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


@settings(max_examples=40, deadline=None)
@given(stories)
def test_every_row_ends_with_one_result_whatever_happens(story):
    told(story)


def test_a_stop_a_checkpoint_a_death_and_a_full_stop():
    stopped = Life(orders=(Order(1500, "TERM"),))
    killed = Life(orders=(Order(700, "USR1"),), death=Death(at_ms=2000))
    cut_short = Life(death=Death(at_sync=15))
    oracle = told(Story(3, 256, 2.0, 1, (stopped, killed, cut_short)))
    assert oracle.restored, "some rows have to go on from where they were"
