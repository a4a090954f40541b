"""`triocollect checkpoint DIR`, from another shell."""

import fcntl
import json
import os
import signal
import subprocess

import pytest

from tests.processes.commands import embedded_run, hung, lines_in, triocollect, until

pytestmark = pytest.mark.processes


@pytest.fixture
def running(tmp_path):
    """A run with rows in flight, until the test is over."""
    run = embedded_run(
        tmp_path,
        *["--checkpoint-dir", tmp_path / "ckpt", "--progress", "none"],
        env={**os.environ, "TRIOCOLLECT_TOKENS_PER_S": "10"},
        stderr=subprocess.DEVNULL,
    )
    try:
        assert until(lambda: lines_in(tmp_path / "out.jsonl") > 0, 120)
        yield run
    finally:
        run.kill()
        run.wait()


def asking(*words):
    return triocollect("checkpoint", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ask(*words):
    asked = asking(*words)
    out, err = asked.communicate(timeout=120)
    assert "Traceback" not in err
    return asked.returncode, out, err


def test_everybody_who_asks_gets_a_checkpoint_and_the_run_goes_on(tmp_path, running):
    both = [asking(tmp_path / "ckpt"), asking(tmp_path, "--json")]
    (out, err), (as_json, _) = [one.communicate(timeout=120) for one in both]
    assert [one.returncode for one in both] == [0, 0], err
    latest = json.loads((tmp_path / "ckpt/LATEST").read_text())["checkpoint_id"]
    told = json.loads(as_json)
    assert told["published"]
    assert latest in {out.strip(), told["checkpoint_id"]}
    assert "can be continued" in err
    assert running.poll() is None
    before = lines_in(tmp_path / "out.jsonl")
    assert until(lambda: lines_in(tmp_path / "out.jsonl") > before)


def test_a_collector_that_says_nothing_is_waited_for_no_longer_than_was_said(tmp_path, running):
    running.send_signal(signal.SIGSTOP)
    code, out, err = ask(tmp_path / "ckpt", "--timeout", "1s")
    assert (code, out) == (3, "")
    assert f"process {running.pid} was asked" in err
    assert "no word of the collector within 1 s" in err
    hangs = asking(tmp_path / "ckpt")
    assert "was asked" in hangs.stderr.readline()
    hangs.send_signal(signal.SIGINT)
    _, err = hangs.communicate(timeout=60)
    assert hangs.returncode == 130
    assert err.startswith("interrupted: the collector takes the checkpoint all the same")


def test_a_collector_that_stops_meanwhile_answers_with_the_checkpoint_it_stops_with(tmp_path, running):
    agent = hung(running, "agent")
    running.send_signal(signal.SIGTERM)
    asks = asking(tmp_path / "ckpt")
    assert "was asked" in asks.stderr.readline()
    os.kill(agent, signal.SIGCONT)
    out, err = asks.communicate(timeout=120)
    running.wait(120)
    assert asks.returncode == 0, err
    assert out.strip() == json.loads((tmp_path / "ckpt/LATEST").read_text())["checkpoint_id"]
    assert "the run stops with it" in err
    code, out, err = ask(tmp_path / "ckpt")
    assert (code, out) == (4, "")
    assert "no collector is at work in" in err


@pytest.fixture
def usr1s():
    """The USR1s that this very process gets."""
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    yield heard
    signal.signal(signal.SIGUSR1, before)


def test_no_other_process_is_ever_signalled(tmp_path, usr1s):
    code, _, err = ask(tmp_path / "nowhere")
    assert (code, "there is no such folder" in err) == (4, True)
    (tmp_path / "collector.pid").write_text(f"{os.getpid()}\n")  # a number that has a new owner
    code, _, err = ask(tmp_path)
    assert code == 4
    assert f"process {os.getpid()}, which collector.pid names, is none" in err
    with (tmp_path / "collector.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (tmp_path / "collector.pid").unlink()
        code, _, err = ask(tmp_path)
        assert code == 4
        assert f"process {os.getpid()} is at work in" in err
        (tmp_path / "collector.pid").write_text("1\n")
        assert ask(tmp_path)[0] == 4
    assert usr1s == []
    with (tmp_path / "collector.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (tmp_path / "collector.pid").write_text(f"{os.getpid()}\n")
        code, _, err = ask(tmp_path, "--timeout", "0.1s")
    assert code == 3
    assert usr1s == [1], "this one says that it is the collector, and is not spared"


def test_a_time_that_is_none_is_a_mistake_of_the_command_line(tmp_path):
    code, _, err = ask(tmp_path, "--timeout", "soon")
    assert code == 2
    assert "--timeout" in err


def test_an_output_that_has_no_checkpoint_directory_is_told_as_one(tmp_path):
    (tmp_path / "out.jsonl").touch()
    code, _, err = ask(tmp_path / "out.jsonl")
    assert code == 2
    assert "out.jsonl: no checkpoint directory is near it; name the one that its run was given" in err
