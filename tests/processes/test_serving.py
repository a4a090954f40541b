"""Servers that `serve` started elsewhere: preempted beside their collector, and continued on new ones."""

import os
import subprocess
from contextlib import ExitStack, contextmanager

import pytest

from fuzz.account import Witness
from fuzz.oracle import judge, uninterrupted
from tests.processes.commands import lines_in, triocollect, until
from tests.processes.lives import Lives
from triocollect.deployment import datasets

pytestmark = pytest.mark.processes

PATIENCE_S = 120.0  # the machine may be busy
ROWS = 8
TOKENS_PER_S = "15"


class TokenFolder:
    """A folder with a token, for servers and collectors that know each other only by it."""

    def __init__(self, folder):
        self.folder, self.token = folder, folder / "token"
        self.words = folder / "servers.err"
        self.token.write_text("a word that nobody guesses\n")
        self.token.chmod(0o600)
        self.ckpt = folder / "ckpt"  # the collector's
        self.part = ["--checkpoint-dir", self.ckpt, "--control-token-file", self.token]

    @contextmanager
    def serving(self, *what, rate=TOKENS_PER_S):
        """Servers, and the URL that they say."""
        asked = {"TRIOCOLLECT_EFFECTS_DIR": str(self.folder / "accounts"), "TRIOCOLLECT_TOKENS_PER_S": rate}
        with self.words.open("a") as words:
            server = triocollect(
                *("serve", *what, *self.part),
                env={**os.environ, **asked},
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
            )
        try:
            yield server, server.stdout.readline().split()[-1]
        finally:
            server.terminate()
            server.terminate()  # told twice, it waits for nobody
            server.communicate(timeout=PATIENCE_S)

    def run(self, *where, token=None):
        return triocollect(
            *("run", "-i", datasets.path("counter"), "--limit", ROWS, "-o", self.folder / "out.jsonl"),
            *("--checkpoint-dir", self.ckpt, "--control-token-file", token or self.token),
            *("--progress", "none", *where),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def at_work(self, run):
        account = self.folder / "accounts/counter.jsonl"
        before = lines_in(account)
        assert until(lambda: run.poll() is not None or lines_in(account) > before + ROWS, PATIENCE_S)


def ends(process):
    words, _ = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in words
    return words


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    life, words = Lives(tmp_path_factory.mktemp("whole"), rows=ROWS).live()
    assert life.code == 0, words
    return uninterrupted(life)


@pytest.mark.parametrize("workers", [1, 2])
def test_servers_that_are_told_to_end_first_let_their_collector_cut_what_it_stops_with(
    tmp_path, wholes, workers
):
    place = TokenFolder(tmp_path)
    witness = Witness(tmp_path)
    with (
        place.serving("--port", "0", "--workers", workers, rate="3") as (servers, head),
        place.run("--head-server", head) as run,
    ):
        place.at_work(run)
        servers.terminate()  # as a batch system does it, to everybody
        assert until(lambda: "waiting up to 130 s for the collector's stop" in place.words.read_text())
        run.terminate()
        words = ends(run)
        assert run.returncode == 75, words
        assert "rows in flight go on from where they were cut" in words
        assert "To continue, start its servers anew and give the same command again." in words
        assert servers.wait(PATIENCE_S) == 0, "without being told again"
        assert place.words.read_text().endswith("told to end: every server has ended\n")
        assert witness.look(75).checkpoint.kept
    with (
        place.serving("--port", "0", rate="1000") as (servers, head),
        place.run("--head-server", head) as run,
    ):
        words = ends(run)
        assert run.returncode == 0, words
        servers.terminate()
        assert servers.wait(PATIENCE_S) == 0, "the collector has said goodbye"
    witness.look(0)
    assert judge(witness.lives, wholes) == []


@contextmanager
def alone(place, rate=TOKENS_PER_S):
    """Each server started by itself: the processes, and how a collector is told of them."""
    with ExitStack() as started:

        def serve(name, **peers):
            words = [word for peer, url in peers.items() for word in ("--peer", f"{peer}={url}")]
            server, url = started.enter_context(place.serving(name, *words, rate=rate))
            servers.append(server)
            return url

        servers = []
        counter, inference = serve("counter"), serve("inference")
        model = serve("model", inference=inference)
        agent = serve("agent", counter=counter, policy_model=model)
        environment = serve("environment", counter=counter, agent=agent)
        servers.remove(servers[1])  # no participant: it ends when it is told to
        parts = {"agent": agent, "model": model, "resources": counter}
        named = [word for kind, url in parts.items() for word in ("--participant", f"{kind}={url}")]
        yield servers, ["--environment-url", environment, *named]


def test_a_collector_continues_on_servers_that_were_each_started_alone(tmp_path, wholes):
    place = TokenFolder(tmp_path)
    witness = Witness(tmp_path)
    with alone(place) as (servers, named), place.run(*named) as run:
        place.at_work(run)
        for server in servers:
            server.terminate()
        run.terminate()
        words = ends(run)
        assert run.returncode == 75, words
        assert [server.wait(PATIENCE_S) for server in servers] == [0] * 4
        assert witness.look(75).checkpoint.kept
    with alone(place, rate="1000") as (_, named), place.run(*named) as run:
        words = ends(run)
        assert run.returncode == 0, words
    witness.look(0)
    assert judge(witness.lives, wholes) == []


def test_servers_with_another_token_are_refused_before_anything_is_sent(tmp_path):
    place, other = TokenFolder(tmp_path), tmp_path / "other"
    other.write_text("another word")
    other.chmod(0o600)
    with place.serving("--port", "0") as (_, head), place.run("--head-server", head, token=other) as run:
        words = ends(run)
    assert run.returncode == 2, words
    assert "do not take the control token" in words
    assert "another word" not in words
    assert lines_in(tmp_path / "accounts/counter.jsonl") == 0


def test_a_fresh_run_that_its_servers_refuse_removes_no_earlier_result(tmp_path):
    place = TokenFolder(tmp_path)
    (tmp_path / "other").write_text("another word\n")
    (tmp_path / "other").chmod(0o600)
    with place.serving("--port", "0", rate="1000") as (_, head):
        with place.run("--head-server", head) as run:
            words = ends(run)
            assert run.returncode == 0, words
        before = (tmp_path / "out.jsonl").read_bytes()
        with place.run("--head-server", head, "--overwrite", token=tmp_path / "other") as run:
            assert "do not take the control token" in ends(run)
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_servers_that_keep_checkpoints_elsewhere_are_refused_before_anything_is_sent(tmp_path):
    folder = TokenFolder(tmp_path)
    with folder.serving("--port", "0") as (servers, head):
        folder.ckpt = tmp_path / "elsewhere"
        with folder.run("--head-server", head) as run:
            words = ends(run)
        servers.terminate()
        assert servers.wait(PATIENCE_S) == 0, "the collector has let them go"
    assert run.returncode == 2, words
    assert f"keeps checkpoints in '{tmp_path}/ckpt', which is not {tmp_path}/elsewhere, " in words
    assert lines_in(tmp_path / "accounts/counter.jsonl") == 0
