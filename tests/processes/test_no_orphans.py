"""However a run ends, no server of its deployment outlives it."""

import os
import signal
import subprocess

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
