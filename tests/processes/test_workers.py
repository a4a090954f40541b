"""Several workers of each server: a run over them is preempted, loses one, and is equal to any other."""

import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import pytest

from fuzz.oracle import judge, uninterrupted
from tests.processes.commands import alive, descendants, triocollect, until
from tests.processes.lives import PATIENCE_S, Lives

pytestmark = pytest.mark.processes

TOKENS_PER_S = 15.0  # a row takes half a second at least
FEW = 4  # at once: when the last of the rows are sent, so many may be sent again (flight.budget)


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    """What each row takes when nobody interrupts it, and one process serves."""
    life, words = Lives(tmp_path_factory.mktemp("whole")).live()
    assert life.code == 0, words
    return uninterrupted(life)


def workers_of(run, server):
    """The process ids of a server's workers, by number."""
    of_this = [(name, child) for child, name in named(run, "--worker") if name.startswith(f"{server} ")]
    return {int(name.rpartition(" ")[2]): child for name, child in of_this}


def coordinator_of(run, server):
    """The process id of what keeps a server's workers."""
    return next(child for child, name in named(run, "--workers") if name == server)


def named(run, flag):
    """The processes below a run that were started with this flag, by the name that they show."""
    for child in alive(descendants(run.pid)):
        with contextlib.suppress(OSError):  # it is gone
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
            if flag in words:
                yield child, words[words.index("--name") + 1]


def killed(server, number):
    def then(run):
        os.kill(workers_of(run, server)[number], signal.SIGKILL)

    return then


@pytest.fixture(autouse=True)
def _no_folder_is_left(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's name has to be
        monkeypatch.setenv("TMPDIR", short)
        yield
        assert until(lambda: not [*Path(short).iterdir()], 10), [*Path(short).rglob("*")]


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


@pytest.mark.parametrize("server", ["environment", "agent", "policy_model", "counter"])
def test_rows_that_had_a_part_on_a_worker_that_was_killed_are_played_again_and_no_others(
    tmp_path, wholes, server
):
    lives = Lives(tmp_path, at_once=FEW, tokens_per_s=TOKENS_PER_S)
    life, words = lives.live(lives.when_all_are_sent(killed(server, 2)), workers=2)
    assert (life.code, life.failures) == (0, ()), words
    assert {line.rollout_id for line in life.lines} == wholes.keys()
    assert judge(lives.seen, wholes) == []


@pytest.mark.parametrize("server", ["environment", "policy_model"])
def test_a_worker_that_is_killed_in_a_checkpoint_costs_that_checkpoint_and_its_own_rows(
    tmp_path, wholes, server
):
    lives = Lives(tmp_path, at_once=FEW, tokens_per_s=TOKENS_PER_S)

    def act(run):
        run.send_signal(signal.SIGUSR1)
        killed(server, 1)(run)

    life, words = lives.live(lives.when_all_are_sent(act), workers=2)
    assert (life.code, life.failures) == (0, ()), words
    assert {line.rollout_id for line in life.lines} == wholes.keys()
    assert judge(lives.seen, wholes) == []


def test_a_worker_that_cannot_be_kept_alive_ends_its_server_which_says_why(tmp_path):
    lives = Lives(tmp_path, tokens_per_s=TOKENS_PER_S)

    def kill_again_and_again(run):
        gone = set()
        while run.poll() is None:
            worker = workers_of(run, "agent").get(2)
            if worker is not None and worker not in gone:
                gone.add(worker)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)

    life, words = lives.live(lives.after(4, kill_again_and_again), workers=2)
    assert life.code == 1, words
    assert "worker 2 was lost 5 times within 60 s, the last time killed by signal 9" in words


def test_a_server_alone_ends_with_all_its_workers_when_it_is_told_to(tmp_path):
    words = ("serve", "counter", "--workers", 3, "--checkpoint-dir", tmp_path / "ckpt")
    token = {**os.environ, "TRIOCOLLECT_CONTROL_TOKEN": "nobody guesses it"}
    with triocollect(*words, env=token, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().split()[-1]
        assert (tmp_path / "ckpt").is_dir(), "who tries a server has to find it before the first checkpoint"
        request = urllib.request.Request(
            f"{url}/checkpoint/v1/capabilities", headers={"authorization": "Bearer nobody guesses it"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert json.loads(answer.read())["workers"] == 3
        assert until(lambda: len(workers_of(server, "counter")) == 3)
        workers = [*workers_of(server, "counter").values()]
        server.terminate()
        _, told = server.communicate(timeout=PATIENCE_S)
    assert (server.returncode, told) == (0, "counter: told to end, and ended\n")
    assert until(lambda: not alive(workers), PATIENCE_S)


def test_the_scripted_worker_is_always_one_process(tmp_path):
    with triocollect("serve", "inference", "--workers", 2, stderr=subprocess.PIPE, text=True) as server:
        _, told = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 2
    assert "--workers: the inference server is always one process; leave it out" in told


def test_a_run_that_is_killed_takes_every_coordinator_and_worker_with_it(tmp_path):
    lives, seen = Lives(tmp_path, tokens_per_s=TOKENS_PER_S), []

    def kill(run):
        seen.extend(alive(descendants(run.pid)))
        run.kill()

    life, _ = lives.live(lives.after(12, kill), workers=2)
    assert life.code == -signal.SIGKILL
    assert len(seen) == 4 * 3 + 1
    assert until(lambda: not alive(seen), PATIENCE_S)


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
