"""`python -m fuzz traced`: the kernel kills the real command, or answers it with an error, at calls on files.

By strace, which counts the calls on one file and no others; servers are left alone. Life after life goes on
in one folder, each with a blow, until one that nobody disturbs ends it; then the accounts of the servers say
whether all lives together are one that nobody interrupted.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from fuzz.account import Life
from fuzz.commands import Options
from fuzz.invariants import BrokenError
from fuzz.jobs import share
from fuzz.oracle import STOPPED, judge, uninterrupted
from fuzz.scratch import PREFIX
from fuzz.tally import Tally
from tests.processes.commands import descendants
from tests.processes.lives import Lives, broken

COMMAND: Final = (sys.executable, "-m", "triocollect")
FAULTS: Final = ("signal=KILL", "error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EROFS")
REPLACED: Final = ("openat", "write", "fsync", "rename")  # a draft's calls on its way to its name
CALLS: Final = {  # of a run that is told to stop, by file in its folder
    "out.jsonl": ("openat", "write", "fsync", "ftruncate"),
    "out_failures.jsonl": ("openat", "fsync"),
    ".out_run.json.tmp": REPLACED,
    "ckpt": ("fsync",),
    "ckpt/.collector.lock.tmp": REPLACED,
    "ckpt/.collector.pid.tmp": REPLACED,
    "ckpt/collector.pid": ("unlink",),
    "ckpt/.dispatched.jsonl.tmp": REPLACED,
    "ckpt/dispatched.jsonl": ("write", "fsync"),
    "ckpt/.LATEST.tmp": REPLACED,
    "ckpt/outcomes.jsonl": ("openat", "write"),
}
OFTEN: Final = ("write", "fsync")  # on one file in one life
LIVES: Final = 5  # with a blow each, and one without
ROWS, TOKENS_PER_S, EFFECTS = 24, 4.0, 6  # more rows than those lives finish


@frozen
class Blow:
    """At the `nth` such call on a file of the run's folder."""

    file: str
    call: str
    nth: int
    fault: str

    def tracer(self, folder: Path, log: Path) -> tuple[str, ...]:
        """What strikes the command behind it."""
        strace = ("strace", "-f", "-qq", "-o", str(log), "--detach-on=execve", "-P", str(folder / self.file))
        return (*strace, f"--trace={self.call}", f"--inject={self.call}:{self.fault}:when={self.nth}")

    def __str__(self) -> str:
        return f"{self.fault}@{self.call}@{self.file}@{self.nth}"

    @classmethod
    def told_by(cls, text: str) -> "Blow":
        """The one of these words. Raises ValueError."""
        fault, call, file, nth = text.split("@")
        return cls(file, call, int(nth), fault)


def all_blows() -> Iterator[Blow]:
    """Every one."""
    for file, calls in CALLS.items():
        for call in calls:
            for nth in (1, 2, 3) if call in OFTEN else (1,):
                yield from (Blow(file, call, nth, fault) for fault in FAULTS)


def drawn(number: int) -> tuple[Blow, ...]:
    """Some of them, one for each life."""
    return tuple(random.Random(number).sample(list(all_blows()), LIVES))


def explore(options: Options, tally: Tally) -> None:
    """Folder after folder. A replay is the blows of one."""
    if shutil.which("strace") is None:
        raise SystemExit("traced needs strace")
    share(_folders, options, tally)


def _folders(options: Options, tally: Tally) -> None:
    if options.replay is not None:
        Struck(tuple(map(Blow.told_by, options.replay.split(" "))), tally).live()
        return
    deadline, number = time.monotonic() + options.seconds, options.seed
    while time.monotonic() < deadline:
        Struck(drawn(number), tally).live()
        number += 1


@frozen
class Struck:
    """One folder, and a life for each blow."""

    blows: tuple[Blow, ...]
    tally: Tally

    def live(self) -> None:
        """All of them, and one that nobody disturbs."""
        root = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            whole, _ = Lives(root / "whole", rows=ROWS).live()
            lives = Lives(root / "struck", rows=ROWS, tokens_per_s=TOKENS_PER_S)
            for blow in self.blows:
                self._strike(lives, blow, root / "log")
            last, words = lives.live()
            if last.code != 0:
                self._complain(15, f"the last life ended with {last.code}: {words[-400:]}", "the end")
            for what in judge(lives.seen, uninterrupted(whole)):
                self._complain(15, what, "all lives together")
        finally:
            shutil.rmtree(root)

    def _strike(self, lives: Lives, blow: Blow, log: Path) -> None:
        before = lives.seen[-1].checkpoint if lives.seen else None

        def stop(run) -> None:
            for collector in descendants(run.pid)[:1]:  # not the tracer
                os.kill(collector, signal.SIGTERM)

        program = (*blow.tracer(lives.folder, log), *COMMAND)
        life, words = lives.live(lives.after(EFFECTS, stop), program=program)
        for what in broken(life, 0 if before is None else before.sequence):
            self._complain(3 if "published" in what or "LATEST" in what else 1, what, str(blow))
        kill = blow.fault == "signal=KILL"
        if life.code not in ({-signal.SIGKILL, STOPPED, 0} if kill else {0, 1, 2, STOPPED}):
            self._complain(15, f"it ended with {life.code}: {words[-400:]}", str(blow))
        if "Traceback" in words:  # 1 is right for a disk that fails, with a message
            self._complain(15, f"it ended with a traceback: {words[-400:]}", str(blow))
        self.tally.explored += 1
        if "INJECTED" in log.read_text() or life.code == -signal.SIGKILL:
            self.tally.fault(f"real {blow.fault}", f"{blow.call} {blow.file}", str(blow), _outcome(life))

    def _complain(self, number: int, what: str, where: str) -> None:
        replay = self.tally.replay(" ".join(map(str, self.blows)))
        for one in dict.fromkeys((number, 15)):
            self.tally.violation(f"{BrokenError(one, what)}\n{where}", replay)


def _outcome(life: Life) -> str:
    return "killed" if life.code == -signal.SIGKILL else f"ends with {life.code}"
