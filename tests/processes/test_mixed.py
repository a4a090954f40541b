"""A deployment one of whose servers cannot be captured: its rows start again, and hold nobody else up."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fuzz.account import Witness
from fuzz.oracle import judge, uninterrupted
from tests.processes.commands import lines_in, triocollect, until

pytestmark = pytest.mark.processes

PATIENCE_S = 120.0  # the machine may be busy
TOKEN = "a word that nobody guesses"
AGENTS = ("counter_agent", "numeric_agent")  # behind the second is a counter that cannot be captured
ROWS = 8
TOOLS = [{"type": "function", "name": name} for name in ("increment", "decrement", "get_value")]


def write_rows(path):
    with path.open("w") as file:
        for number in range(ROWS):
            task = f"Add {number + 1}, then 40, then subtract 7, then add 5, then report the value."
            row = {
                "responses_create_params": {"input": task, "tools": TOOLS},
                "expected_change": number + 39,
                "agent_ref": {"name": AGENTS[number % 2]},
            }
            file.write(json.dumps(row) + "\n")


class Mixed:
    """Rows, and a deployment for them; `speaks`: the odd server knows of checkpoints, and takes none."""

    def __init__(self, folder, *, speaks):
        self.folder, self.speaks = folder, speaks
        self.account = folder / "accounts/counter.jsonl"  # of both counters
        self.account.parent.mkdir()
        write_rows(folder / "in.jsonl")
        self._environment = {**os.environ, "TRIOCOLLECT_CONTROL_TOKEN": TOKEN}
        self.witness = Witness(folder)

    def _serve(self, started, command, **settings):
        server = started.enter_context(
            subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, **settings)
        )
        started.callback(server.kill)
        return server.stdout.readline().split()[-1]

    def _own(self, started, name, rate, **peers):
        words = [word for peer, url in peers.items() for word in ("--peer", f"{peer}={url}")]
        asked = {"TRIOCOLLECT_EFFECTS_DIR": str(self.account.parent), "TRIOCOLLECT_TOKENS_PER_S": rate}
        command = [sys.executable, "-m", "triocollect", "serve", name, *words]
        part = [] if name == "inference" else ["--checkpoint-dir", self.folder / "ckpt"]
        return self._serve(started, [*command, *part], env={**self._environment, **asked})

    @contextmanager
    def serving(self, rate):
        """The URL of the head."""
        with ExitStack() as started:
            script = [sys.executable, Path(__file__).with_name("uncaptured.py"), "numeric", self.account]
            script += [self.folder / "ckpt"] if self.speaks else []
            numeric = self._serve(started, script, env=self._environment)
            counter, inference = (self._own(started, name, rate) for name in ("counter", "inference"))
            model = self._own(started, "model", rate, inference=inference)
            resources = {"counter": counter, "numeric": numeric}
            agent = self._own(started, "agent", rate, policy_model=model, **resources)
            yield self._own(started, "environment", rate, policy_model=model, agent=agent, **resources)

    def live(self, head, act=lambda _: None):
        """One run, in which `act` may signal the process; what it left, and its words."""
        run = triocollect(
            *("run", "-i", self.folder / "in.jsonl", "-o", self.folder / "out.jsonl", "--progress", "plain"),
            *("--checkpoint-dir", self.folder / "ckpt", "--head-server", head),
            env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        with run:
            act(run)
            words, _ = run.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in words
        return self.witness.look(run.returncode), words

    def stop_in_the_middle(self, run):
        assert until(lambda: run.poll() is not None or lines_in(self.account) > 2 * ROWS, PATIENCE_S)
        run.terminate()


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    mixed = Mixed(tmp_path_factory.mktemp("whole"), speaks=True)
    with mixed.serving("1000") as head:
        life, words = mixed.live(head)
    assert life.code == 0, words
    return uninterrupted(life)


@pytest.mark.parametrize("speaks", [True, False])
def test_rows_of_a_server_that_cannot_be_captured_start_again_and_all_others_go_on(tmp_path, wholes, speaks):
    mixed = Mixed(tmp_path, speaks=speaks)
    why = "resources numeric at" if speaks else "no part in checkpoints is taken by numeric at"
    with mixed.serving("15") as head:
        life, words = mixed.live(head, mixed.stop_in_the_middle)
    assert life.code == 75, words
    assert why in words
    kept = life.checkpoint.kept
    assert kept, "rows of the counter are in it"
    assert all(int(rollout_id[0]) % 2 == 0 for rollout_id in kept), "and no others"
    with mixed.serving("1000") as head:
        life, words = mixed.live(head)
    assert life.code == 0, words
    assert why in words, "the second run tells too why rows start again"
    again = [line for line in life.lines if line.attempt and line.rollout_id not in kept]
    assert again
    assert {line.task % 2 for line in again} == {1}
    assert judge(mixed.witness.lives, wholes) == []
