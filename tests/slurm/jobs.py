"""A job that collects, life by life, with a batch script of the README as it stands."""

import contextlib
import os
import re
import sys
from itertools import islice
from pathlib import Path

from fuzz.account import Witness
from fuzz.oracle import STOPPED
from tests.processes.commands import lines_in, until
from triocollect.deployment import datasets

PATIENCE_S = 180.0  # Slurm looks twice a minute, and the machine may be busy
ROWS = 60
STOP = "To continue, give the same command again."
README = Path(__file__).parents[2] / "README.md"
STAND_IN = """\
#!/bin/sh
. ./settings
exec 9>acknowledged
TRIOCOLLECT_ACK_FD=9 exec {python} -m triocollect "$@"
"""


def shown_scripts():
    """The batch scripts that the README shows: the plain one, and the one that stays."""
    section = README.read_text().partition("\n## On Slurm\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(#!/bin/bash\n.*?)^```$", section, re.DOTALL | re.MULTILINE)


class Job:
    """Its folder has what the scripts name. `triocollect` there is ours with a pace, accounts and a pipe."""

    def __init__(self, cluster, folder):
        self.folder, self.results, self.number = folder, folder / "results", ""
        self.output, self.pid_file = self.results / "out.jsonl", self.results / "ckpt/collector.pid"
        self._cluster, self._witness, self._told = cluster, Witness(self.results), 0
        self._acknowledged = b""
        with datasets.path("counter").open() as rows:
            (folder / "rows.jsonl").write_text("".join(islice(rows, ROWS)))
        command = folder / "bin/triocollect"
        command.parent.mkdir()
        command.write_text(STAND_IN.format(python=sys.executable))
        command.chmod(0o755)
        os.mkfifo(folder / "acknowledged")
        self._pipe = os.open(folder / "acknowledged", os.O_RDWR | os.O_NONBLOCK)

    def close(self):
        os.close(self._pipe)

    def pace(self, tokens_per_s):
        """How fast the model is in the lives that have not begun."""
        settings = {"CONCURRENCY": 8, "TOKENS_PER_S": tokens_per_s, "EFFECTS_DIR": self.results / "accounts"}
        lines = [f"export TRIOCOLLECT_{name}={value}\n" for name, value in settings.items()]
        (self.folder / "settings").write_text("".join(lines))

    # -- Slurm ----------------------------------------------------------------------------------------------

    def submit(self, script):
        (self.folder / "job.sbatch").write_text(script)
        path = f"{self.folder}/bin{os.pathsep}{self._cluster.environment['PATH']}"
        command = ("sbatch", "--parsable", "--output=job.out", "job.sbatch")
        environment = {**self._cluster.environment, "PATH": path}
        self.number = self._cluster.run(*command, cwd=self.folder, env=environment).strip()

    def facts(self):
        """What Slurm knows of the job, word by word."""
        told = self._cluster.ask("scontrol", "show", "job", "--oneliner", self.number)
        return dict(word.partition("=")[::2] for word in told.split())

    def reaches(self, state, **facts):
        """Wait for what Slurm says of the job."""
        facts = {"JobState": state, **facts}
        return until(lambda: facts.items() <= self.facts().items(), PATIENCE_S)

    def limit(self, minutes):
        """Let its time be over soon: the script hears of it five minutes before, so now."""
        self._update(f"TimeLimit={minutes}")

    def come_back(self):
        """Start it again, though not in the second of its end: Slurm takes that for the job that was."""
        assert self.reaches("PENDING", Reason="BeginTime"), self.facts()
        self._update("StartTime=now+2")

    def signal_all(self, name):
        """To every process of the job, as at a preemption: the script and what it has started."""
        self._cluster.run("scancel", "--full", f"--signal={name}", self.number)

    def _update(self, what):
        self._cluster.run("scontrol", "update", f"JobId={self.number}", what)

    def requeue(self):
        """As somebody does who sees that it ended with 75."""
        self._cluster.run("scontrol", "requeue", self.number)

    def preempt(self):
        """Somebody more important wants the node, for a moment."""
        self._cluster.run("sbatch", "--partition=high", "--output=/dev/null", "--wrap", "true")

    # -- the collector --------------------------------------------------------------------------------------

    def words(self):
        """What the job has said since a life was looked at."""
        output = self.folder / "job.out"
        return output.read_text()[self._told :] if output.exists() else ""

    def says(self, what):
        """Wait for its words."""
        return until(lambda: what in self.words(), PATIENCE_S)

    def has(self, lines):
        """Wait for so many lines of the output."""
        return until(lambda: lines_in(self.output) >= lines, PATIENCE_S)

    def collector(self):
        """The process that says it is the collector, once there is one."""
        assert until(lambda: self.pid_file.exists() and self.pid_file.read_text(), PATIENCE_S), self.words()
        return int(self.pid_file.read_text())

    def processes(self):
        """Collectors and servers of this job, of all lives."""
        mark = f"TRIOCOLLECT_EFFECTS_DIR={self.results}/accounts".encode()
        found = set()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.add(int(process.name))
        return found

    def look(self, but=frozenset()):
        """The life that is over, as files and accounts tell it; `but` are processes of the next one."""
        assert until(lambda: self.processes() <= but, PATIENCE_S), "a process outlived its run"
        words = self.words()
        self._told += len(words)
        assert "Traceback" not in words, words
        self.go_on()
        acknowledged, self._acknowledged = self._acknowledged.decode().split(), b""
        life = self._witness.look(STOPPED if STOP in words else 0, acknowledged)
        return life, words

    @property
    def seen(self):
        """What was seen, life by life."""
        return self._witness.lives

    def hang(self):
        """From now on no sync of the collector ends: the pipe of its acknowledgements is full."""
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self._pipe, b"\n")

    def go_on(self):
        """Take the acknowledgements."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._acknowledged += os.read(self._pipe, 1 << 16)
