"""However a run ends, no server of its deployment outlives it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.commands import alive, descendants, embedded_run, lines_in, until

pytestmark = pytest.mark.processes

ENDS = {
    "Ctrl-C": (signal.SIGINT, True, {130}),
    "INT to the run alone": (signal.SIGINT, False, {130}),
    "TERM to the whole group": (signal.SIGTERM, True, {-signal.SIGTERM}),
    "TERM to the run alone": (signal.SIGTERM, False, {-signal.SIGTERM}),
    "KILL": (signal.SIGKILL, False, {-signal.SIGKILL}),
}


@pytest.mark.parametrize("end", ENDS)
def test_no_server_outlives_its_run(tmp_path, end):
    signum, to_group, expected = ENDS[end]
    run = embedded_run(tmp_path, start_new_session=True, stderr=subprocess.PIPE)
    try:
        assert until(lambda: lines_in(tmp_path / "out.jsonl") > 3)
        servers = alive(descendants(run.pid))
        assert len(servers) == 5, "environment, agent, model, inference, counter"
        if to_group:
            os.killpg(run.pid, signum)
        else:
            run.send_signal(signum)
        _, words = run.communicate(timeout=30)
        assert run.returncode in expected
        assert until(lambda: not alive(servers), 15), "a server outlived its run"
        assert b"Traceback" not in words
        if signum == signal.SIGINT:
            assert b"run the same command again to continue" in words
    finally:
        run.kill()
        run.wait()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_run_also_one_that_a_signal_has_stopped(tmp_path, signum):
    run = embedded_run(tmp_path, "--workers", "2")
    servers: list[int] = []
    try:
        assert until(lambda: lines_in(tmp_path / "out.jsonl") > 3)
        servers = alive(descendants(run.pid))
        stopped = next(pid for pid in servers if b"--worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(stopped, signal.SIGSTOP)
        run.send_signal(signum)
        run.wait(30)
        assert until(lambda: not alive(servers), 15), "a worker outlived its run"
    finally:
        for pid in alive(servers):
            os.kill(pid, signal.SIGKILL)
        run.kill()
        run.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_told_to_end_leaves_neither_its_run_nor_its_folder(tmp_path, number):
    demo = subprocess.Popen(
        [sys.executable, "-m", "triocollect", "demo"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    started: list[int] = []
    try:
        assert until(lambda: len(alive(descendants(demo.pid))) >= 5), "environment, agent, model, …"
        started = alive(descendants(demo.pid))
        demo.send_signal(number)
        _, words = demo.communicate(timeout=30)
        assert demo.returncode == 128 + number
        assert words == b""
        assert until(lambda: not alive(started), 15), "its run outlived it"
        assert not any(tmp_path.iterdir())
    finally:
        demo.kill()
        for pid in alive(started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        demo.wait()


def test_a_run_survives_a_usr1_at_any_time(tmp_path):
    run = embedded_run(tmp_path, "-n", "4", repeats=5, stderr=subprocess.PIPE)
    try:
        assert until(lambda: lines_in(tmp_path / "out_materialized_inputs.jsonl"))
        for _ in range(20):
            run.send_signal(signal.SIGUSR1)
        _, words = run.communicate(timeout=120)
        assert run.returncode == 0, words
        assert lines_in(tmp_path / "out.jsonl") == 20
    finally:
        run.kill()
        run.wait()
