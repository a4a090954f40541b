"""A run on the embedded deployment over several lives, each looked at by a witness when it is over."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from fuzz.account import Witness
from fuzz.live import hits
from tests.processes.commands import lines_in, until
from triocollect.deployment import datasets

PATIENCE_S = 120.0  # the machine may be busy


class Lives:
    """Rows, of the counter as a rule, in a folder; a life is one process, and over before the next begins."""

    def __init__(self, folder, *, data=None, rows=20, at_once=8, tokens_per_s=None):
        self.folder, self.pid_file, self._rows = folder, folder / "ckpt/collector.pid", rows
        self.acknowledged = []  # capture keys, of the life that is or was last
        self._witness = Witness(folder)
        self._environment = {**os.environ, "TRIOCOLLECT_EFFECTS_DIR": str(folder / "accounts")}
        if tokens_per_s is not None:
            self._environment["TRIOCOLLECT_TOKENS_PER_S"] = str(tokens_per_s)
        files = ["-o", folder / "out.jsonl", "--checkpoint-dir", folder / "ckpt"]
        sent = ["-i", data or datasets.path("counter"), "--limit", rows, "-c", at_once]
        self._words = [str(word) for word in ("run", *sent, *files, "--progress", "none")]

    @property
    def seen(self):
        """What the witness saw, life by life."""
        return self._witness.lives

    def live(
        self, act=lambda _: None, *, dies_at=None, program=(sys.executable, "-m", "triocollect"), workers=1
    ):
        """One life, in which `act` may signal the process; what it left, and its words.

        `dies_at`: before which change of names, from the making of a checkpoint's folder on, and below 0 from
        the start on; see hits.py. `program`: what to run instead of the command. `workers`: of each server.
        """
        if dies_at is not None:
            hit = f"KILL collector {abs(dies_at)}{' publish' if dies_at > 0 else ''}"
            program = (sys.executable, hits.__file__, hit)
        read_end, write_end = os.pipe()
        acknowledged = self.acknowledged = []
        listener = threading.Thread(target=_listen, args=(read_end, acknowledged))
        listener.start()
        run = subprocess.Popen(
            [*program, *self._words, "--workers", str(workers)],
            env={**self._environment, "TRIOCOLLECT_ACK_FD": str(write_end)},
            pass_fds=[write_end],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(write_end)
        try:
            act(run)
            words = _words_of(run)
        finally:
            run.kill()
            run.wait()
            listener.join()
        assert until(lambda: not self.servers(), 15), "a server outlived its run"
        assert "Traceback" not in words
        return self._witness.look(run.returncode, acknowledged), words

    def after(self, effects, then):
        """An `act`: wait for so many more effects in the environments, then do something to the process."""
        wanted = self._effects() + effects

        def act(run):
            assert until(lambda: run.poll() is not None or self._effects() >= wanted, PATIENCE_S)
            then(run)

        return act

    def when_all_are_sent(self, then):
        """An `act`: do something to the process as soon as no row waits to be sent any more."""
        log, header = self.folder / "ckpt/dispatched.jsonl", 1

        def act(run):
            assert until(lambda: run.poll() is not None or lines_in(log) >= header + self._rows, PATIENCE_S)
            then(run)

        return act

    def _effects(self):
        """How many there are by now, seeds among them."""
        accounts = (self.folder / "accounts").glob("*.jsonl")
        return sum(lines_in(account) for account in accounts if account.name != "inference.jsonl")

    def servers(self):
        """Processes of this folder's deployments that still run."""
        mark = f"TRIOCOLLECT_EFFECTS_DIR={self.folder}/accounts".encode()
        return [process for process in Path("/proc").glob("[0-9]*") if _serves(process, mark)]


def broken(life, published=0):
    """The promises that a life did not keep; `published`: the number that a checkpoint was said to have."""
    written = {line.capture_key for line in (*life.lines, *life.failures)}
    latest = 0 if life.checkpoint is None else life.checkpoint.sequence
    lost = [f"{key} was acknowledged, and is lost" for key in sorted(life.acknowledged - written)]
    return [*lost, *life.faults, *[f"{published} was published, not {latest}"] * (latest < published)]


def _words_of(run):
    """All that it says until it ends, for which it is not waited for ever."""
    try:
        return run.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode()
        raise AssertionError(f"it still runs after {PATIENCE_S:g} s, and has said:\n{said}") from None


def _listen(read_end, acknowledged):
    with os.fdopen(read_end) as lines:
        for line in lines:
            acknowledged.append(line.strip())


def _serves(process, mark):
    try:
        is_server = b"triocollect.servers" in (process / "cmdline").read_bytes()
        return is_server and mark in (process / "environ").read_bytes()
    except OSError:
        return False
