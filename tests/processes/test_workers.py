"""Several workers of each server: a run over them is preempted, loses one, and is equal to any other."""

import os
import random
import signal
from pathlib import Path

import pytest

from fuzz.oracle import judge, uninterrupted
from tests.processes.commands import alive, descendants, until
from tests.processes.lives import PATIENCE_S, Lives

pytestmark = pytest.mark.processes

TOKENS_PER_S = 15.0  # a row takes half a second at least


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    """What each row takes when nobody interrupts it, and one process serves."""
    life, words = Lives(tmp_path_factory.mktemp("whole")).live()
    assert life.code == 0, words
    return uninterrupted(life)


def workers_of(run, server):
    """The process ids of a server's workers, by number."""
    found = {}
    for child in alive(descendants(run.pid)):
        words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        if "--worker" in words and words[words.index("--name") + 1].startswith(f"{server} "):
            found[int(words[words.index("--name") + 1].rpartition(" ")[2])] = child
    return found


def coordinator_of(run, server):
    """The process id of what keeps a server's workers."""
    for child in alive(descendants(run.pid)):
        words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        if "--workers" in words and words[words.index("--name") + 1] == server:
            return child
    raise AssertionError(server)


def killed(server, number):
    def then(run):
        os.kill(workers_of(run, server)[number], signal.SIGKILL)

    return then


@pytest.fixture(autouse=True)
def _no_folder_is_left(tmp_path, monkeypatch):
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    monkeypatch.setenv("TMPDIR", str(sockets))
    yield
    assert until(lambda: not [*sockets.iterdir()], 10)


@pytest.mark.parametrize("counts", [(2, 3, 1), (1, 4)])
def test_a_run_that_is_stopped_goes_on_with_any_other_number_of_workers(tmp_path, wholes, counts):
    dice, lives = random.Random(len(counts)), Lives(tmp_path, tokens_per_s=TOKENS_PER_S)
    for workers in counts[:-1]:
        stop = lives.after(dice.randrange(8, 30), lambda run: run.send_signal(signal.SIGTERM))
        life, words = lives.live(stop, workers=workers)
        assert life.code == 75, words
        assert life.checkpoint.kept, "a stop has to meet rows in flight"
    life, words = lives.live(workers=counts[-1])
    assert life.code == 0, words
    assert judge(lives.seen, wholes) == []


@pytest.mark.parametrize("server", ["environment"])
def test_rows_that_had_a_part_on_a_worker_that_was_killed_are_played_again_and_no_others(
    tmp_path, wholes, server
):
    lives = Lives(tmp_path, tokens_per_s=TOKENS_PER_S)
    life, words = lives.live(lives.after(12, killed(server, 2)), workers=2)
    assert life.code == 0, words
    assert {line.rollout_id for line in life.lines} == wholes.keys()


def test_a_coordinator_that_is_killed_takes_its_workers_with_it_and_ends_the_run(tmp_path):
    lives, seen = Lives(tmp_path, tokens_per_s=TOKENS_PER_S), []

    def kill(run):
        seen.extend(workers_of(run, "agent").values())
        os.kill(coordinator_of(run, "agent"), signal.SIGKILL)

    life, words = lives.live(lives.after(12, kill), workers=2)
    assert len(seen) == 2
    assert life.code == 1, words
    assert "the agent server ended (killed by signal 9)" in words
    assert until(lambda: not alive(seen), PATIENCE_S)
