"""Signals of a real process, from before its first line to after its last."""

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.processes.commands import embedded_run, hung, lines_in, until
from triocollect.checkpoint.directory import read_outcomes

pytestmark = pytest.mark.processes

SLOW = {"TRIOCOLLECT_TOKENS_PER_S": "10"}
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def already_sent(*numbers):
    """For `preexec_fn`: they wait for the program, as what is pending outlives an exec."""

    def send():
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        for number in numbers:
            os.kill(os.getpid(), number)

    return send


def controlled(folder, *more, **settings):
    words = ["--checkpoint-dir", folder / "ckpt", "--progress", "none", *more]
    settings = {"env": {**os.environ, **SLOW}, "stderr": subprocess.PIPE, **settings}
    return embedded_run(folder, *words, **settings)


def words_of(run, within_s=120):
    _, words = run.communicate(timeout=within_s)
    assert b"Traceback" not in words
    assert b"ignored" not in words
    return words.decode()


def flying(folder):
    """Wait for rows in flight."""
    return until(lambda: lines_in(folder / "out.jsonl") > 0, 120)


def hears(run, number):
    """Whether the process has a handler for it."""
    status = Path(f"/proc/{run.pid}/status").read_text()
    return int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1


def waits(run, number):
    """Whether the kernel has not handed it over yet."""
    status = Path(f"/proc/{run.pid}/status").read_text()
    pending = [line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return any(int(mask, 16) >> (number - 1) & 1 for mask in pending)


@pytest.fixture
def running():
    """Processes that do not outlive the test."""
    runs = []
    yield runs
    for run in runs:
        run.kill()
        run.wait()


@pytest.mark.parametrize("number", STOPS)
def test_a_stop_before_the_first_line_is_acted_on_when_the_run_listens(tmp_path, number, running):
    running.append(run := controlled(tmp_path, preexec_fn=already_sent(number)))
    words_of(run)
    assert run.returncode == 75
    assert lines_in(tmp_path / "out.jsonl") == 0


@pytest.mark.parametrize("number", STOPS)
def test_without_a_checkpoint_directory_a_stop_before_the_first_line_ends_the_program(
    tmp_path, number, running
):
    running.append(run := embedded_run(tmp_path, preexec_fn=already_sent(number), stderr=subprocess.PIPE))
    words_of(run)
    assert run.returncode == (130 if number == signal.SIGINT else -number)
    assert list(tmp_path.iterdir()) == []


def test_a_usr1_before_the_first_line_kills_nothing(tmp_path, running):
    before = already_sent(signal.SIGUSR1, signal.SIGTERM)
    running.append(run := controlled(tmp_path, preexec_fn=before))
    words_of(run)
    assert run.returncode == 75, "the TERM that came with it is heard"


def test_a_run_that_waits_for_another_collector_hears_a_stop(tmp_path, running):
    (tmp_path / "ckpt").mkdir()
    with (tmp_path / "ckpt/collector.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running.append(run := controlled(tmp_path, "--wait-for-lock", "1h"))
        assert until(lambda: hears(run, signal.SIGUSR1))
        run.send_signal(signal.SIGTERM)
        words = words_of(run)
    assert run.returncode == 75
    assert "told to stop before anything was sent" in words
    assert not (tmp_path / "out.jsonl").exists()


def test_twenty_terms_are_one_checkpoint_and_one_exit_code(tmp_path, running):
    running.append(run := controlled(tmp_path))
    assert flying(tmp_path)
    for _ in range(20):
        run.send_signal(signal.SIGTERM)
        time.sleep(0.02)
    words_of(run)
    assert run.returncode == 75
    outcomes, _ = read_outcomes(tmp_path / "ckpt")
    assert [outcome.published for outcome in outcomes] == [True]


def test_a_usr1_and_a_term_at_once_are_one_stop(tmp_path, running):
    running.append(run := controlled(tmp_path))
    assert flying(tmp_path)
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGCONT):
        run.send_signal(number)
    words_of(run)
    assert run.returncode == 75
    outcomes, _ = read_outcomes(tmp_path / "ckpt")
    assert 1 <= len(outcomes) <= 2
    assert outcomes[-1].published


def test_a_terminal_that_is_closed_stops_a_run_that_takes_checkpoints(tmp_path, running):
    running.append(run := controlled(tmp_path, start_new_session=True))
    assert flying(tmp_path)
    os.killpg(
        run.pid, signal.SIGHUP
    )  # its servers hear it too, and have to live until the checkpoint is there
    words_of(run)
    assert run.returncode == 75
    assert (tmp_path / "ckpt/LATEST").exists()


def test_under_nohup_a_terminal_that_is_closed_changes_nothing(tmp_path, running):
    nohup = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    running.append(run := controlled(tmp_path, "-n", "2", repeats=2, **nohup))
    assert flying(tmp_path)
    run.send_signal(signal.SIGHUP)
    words_of(run)
    assert run.returncode == 0
    assert not (tmp_path / "ckpt/LATEST").exists()


def test_a_server_that_hangs_keeps_no_stop_beyond_its_grace_and_moves_no_latest(tmp_path, running):
    running.append(run := controlled(tmp_path, "--grace", "4"))  # of the stop alone
    assert flying(tmp_path)
    run.send_signal(signal.SIGUSR1)
    latest = tmp_path / "ckpt/LATEST"
    assert until(latest.exists)
    before = latest.read_bytes()
    hung(run, "agent")
    run.send_signal(signal.SIGTERM)
    words_of(run)
    assert run.returncode == 75
    assert latest.read_bytes() == before


def test_two_ctrl_cs_right_after_each_other_leave_at_once(tmp_path, running):
    running.append(run := controlled(tmp_path, "--checkpoint-timeout", "1h"))
    assert flying(tmp_path)
    hung(run, "agent")
    run.send_signal(signal.SIGINT)
    assert until(lambda: not waits(run, signal.SIGINT))  # two in the kernel would be one
    time.sleep(0.005)  # the same for the interpreter; a third one would hide two that are merged
    run.send_signal(signal.SIGINT)
    words_of(run)
    assert run.returncode == 130
    assert not (tmp_path / "ckpt/LATEST").exists()


@pytest.mark.parametrize(
    ("storm", "code"),
    [((signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1), 75), ((*STOPS, signal.SIGUSR1), 130)],
    ids=["without ctrl-c", "all four"],
)
def test_a_storm_of_signals_until_the_process_has_ended_changes_no_exit_code(tmp_path, storm, code, running):
    running.append(run := controlled(tmp_path, "--grace", "2"))
    assert flying(tmp_path)
    hung(run, "agent")  # so that the stop is still under way when the second Ctrl-C comes
    deadline = time.monotonic() + 120
    while run.poll() is None and time.monotonic() < deadline:
        for number in storm:
            run.send_signal(number)
        time.sleep(0.005)
    run.kill()
    _, words = run.communicate()
    assert run.returncode == code, words.decode()
    assert b"Traceback" not in words
