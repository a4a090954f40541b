"""A server of the embedded deployment that dies ends the run at once, and costs no row anything."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.processes.commands import alive, descendants, lines_in, triocollect, until
from triocollect.deployment import datasets

pytestmark = pytest.mark.processes

PATIENCE_S = 120.0  # the machine may be busy
ROWS = 8


def slow_run(folder, tokens_per_s, **settings):
    """A run with checkpoints whose events come as lines on its standard error."""
    files = ["-o", folder / "out.jsonl", "--checkpoint-dir", folder / "ckpt", "--progress", "json"]
    environment = {**os.environ, "TRIOCOLLECT_EFFECTS_DIR": str(folder / "accounts")}
    if tokens_per_s is not None:
        environment["TRIOCOLLECT_TOKENS_PER_S"] = str(tokens_per_s)
    return triocollect(
        *("run", "-i", datasets.path("counter"), "--limit", ROWS, "-c", "8", *files),
        **{"env": environment, "stderr": subprocess.PIPE, "text": True, **settings},
    )


def server(run, name):
    """The process id of one server of a run."""
    return next(pid for pid in descendants(run.pid) if f"--name\0{name}\0".encode() in words_of(pid))


def words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def at_work(folder):
    return lambda: lines_in(folder / "accounts/counter.jsonl") > ROWS


def ends(run):
    """The last words of a run that ends by itself."""
    _, words = run.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in words
    return words


@pytest.mark.parametrize("name", ["environment", "policy_model", "counter"])
def test_the_death_of_a_server_is_told_by_its_name_and_fails_no_row(tmp_path, name):
    with slow_run(tmp_path, 15) as run:
        assert until(at_work(tmp_path), PATIENCE_S)
        servers = descendants(run.pid)
        os.kill(server(run, name), signal.SIGKILL)
        words = ends(run)
    assert run.returncode == 1, words
    assert f"triocollect: the {name} server ended (killed by signal 9)" in words
    assert "to continue, give the same command again" in words
    assert lines_in(tmp_path / "out_failures.jsonl") == 0
    assert until(lambda: not alive(servers))
    with slow_run(tmp_path, None) as again:
        assert ends(again)
    assert again.returncode == 0
    assert lines_in(tmp_path / "out.jsonl") == ROWS


def test_a_server_that_dies_in_the_middle_of_a_checkpoint_ends_it_and_latest_stays(tmp_path):
    with slow_run(tmp_path, 15) as run:
        assert until(at_work(tmp_path), PATIENCE_S)
        run.send_signal(signal.SIGUSR1)
        wait_for(run, "checkpoint_ended")
        latest = (tmp_path / "ckpt/LATEST").read_bytes()
        os.kill(server(run, "agent"), signal.SIGSTOP)  # no checkpoint is ready without it
        run.send_signal(signal.SIGUSR1)
        wait_for(run, "checkpoint_started")
        os.kill(server(run, "counter"), signal.SIGKILL)
        words = ends(run)
    assert run.returncode == 1, words
    assert "the counter server ended (killed by signal 9)" in words
    assert (tmp_path / "ckpt/LATEST").read_bytes() == latest
    with slow_run(tmp_path, None) as again:
        assert "rows go on from checkpoint" in ends(again)
    assert again.returncode == 0
    assert lines_in(tmp_path / "out.jsonl") == ROWS


def wait_for(run, event):
    for line in run.stderr:
        if json.loads(line).get("type") == event:
            return
    raise AssertionError(f"no {event}")
