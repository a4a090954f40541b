"""The server on the page for authors is tried as its author would: in a test, and by the command."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.participant.page import text_of_the_server
from triocollect.conformance import Terms, examine_app
from triocollect.conformance.table import PROMISES

TOKEN = "a word that nobody guesses"
NOT_OF_IT = {34, 36, 37, 38, 41, 43}  # of an environment, a model, a server that cannot write its state down


def test_in_a_test_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", TOKEN)
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path))

    def make():
        names = {"__name__": "dice"}
        exec(compile(text_of_the_server(), "dice.py", "exec"), names)  # of our own page
        return names["app"]

    examined = examine_app(make, Terms(token=TOKEN, directory=tmp_path, seconds=0))
    assert all(one.verdict == "kept" for one in examined.findings), examined.text()
    numbers = {promise.number for promise in PROMISES} - NOT_OF_IT
    assert {one.number for one in examined.findings} == numbers | {len(PROMISES) + 1}


@contextmanager
def supervised(folder, environ):
    """The page's server, started anew whenever it ends; its URL, and the command that ends it."""
    (folder / "dice.py").write_text(text_of_the_server())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fd = listening.fileno()
        serve = f"{sys.executable} -m uvicorn dice:app --no-use-colors --fd {fd}"
        loop = f"while :; do {serve} & echo $! > pid; wait $!; done"
        with (folder / "uvicorn.log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", loop],
                cwd=folder,
                env=environ,
                pass_fds=[fd],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            yield url, f"bash -c 'kill -9 $(cat {folder / 'pid'})'"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.processes
def test_by_the_command_with_restarts_in_between(tmp_path):
    root = tmp_path / "checkpoints"
    root.mkdir()
    environ = os.environ | {"TRIOCOLLECT_CONTROL_TOKEN": TOKEN, "CHECKPOINT_DIR": str(root)}
    with supervised(tmp_path, environ) as (url, restart):
        flags = ["--checkpoint-dir", str(root), "--restart", restart, "--seconds", "1s", "--json"]
        command = [sys.executable, "-m", "triocollect", "fuzz", "--participant", f"resources={url}", *flags]
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["kept"]
    [examined] = told["participants"]
    assert {one["verdict"] for one in examined["findings"]} == {"kept"}, ended.stderr
    assert examined["instance"] == "dice"
    assert not list(root.iterdir())
