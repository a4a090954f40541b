"""`triocollect demo`."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import msgspec
from attrs import frozen
from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.goodbye import leaving_in_order
from triocollect.deployment import datasets
from triocollect.deployment.provisions import require_servers
from triocollect.errors import DeploymentError, Exit, UsageError
from triocollect.reading.examining import EFFECTS, examine, verify_run
from triocollect.reading.places import Place
from triocollect.report.run_report import Report
from triocollect.report.verify import saved
from triocollect.report.wording import rows

ABOUT = """Collects a small data set from the deployment that the package brings along, preempts the collector
in the middle of it, runs the same command again, and checks by what the servers wrote down that every rollout
went on from where it was cut."""
EPILOGUE = """Examples:
  triocollect demo
  triocollect demo --keep demo/ && triocollect verify demo/

Exit codes:
  0  everything adds up
  1  it does not, or a run failed
  2  --keep: not empty, or cannot be made; or the extra is missing"""
ROWS: Final = 24
CONCURRENCY: Final = 8
TOKENS_PER_S: Final = 4  # of the scripted model: a row takes some seconds
PREEMPT_AT: Final = 9  # results that are written when the preemption comes
PATIENCE_S: Final = 120.0
TOLD: Final = ("one_result", "whole", "one_line")  # of what verify asks; the rest is summed up

app = command("demo", "[--keep DIR]", ABOUT, EPILOGUE)


@app.default
def demo(
    *,
    keep: Annotated[str | None, Parameter(help="Leave everything in this folder.", metavar="DIR")] = None,
) -> int:
    """Tell the story."""
    require_servers()
    with leaving_in_order(), _folder(keep) as folder:
        code = Story(folder).tell()
    if keep is None:
        say.out(
            "its folder is gone; with --keep DIR it stays, and triocollect verify DIR computes this again"
        )
    else:
        say.out(f"everything is in {keep}; triocollect verify {shlex.quote(keep)} computes this again")
    return code


@contextlib.contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="triocollect-demo-") as folder:
            yield Path(folder)
        return
    kept = Path(keep)
    try:
        kept.mkdir(parents=True, exist_ok=True)
        empty = not any(kept.iterdir())
    except OSError as error:
        raise UsageError(f"--keep {keep}: {error.strerror}; name another folder") from error
    if not empty:
        raise UsageError(f"--keep {keep}: is not empty; name a folder that is new")
    yield kept


@frozen
class Story:
    """The demo in one folder."""

    folder: Path

    @property
    def output(self) -> Path:
        """Where both runs write their results."""
        return self.folder / "out.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Their checkpoint directory."""
        return self.folder / "checkpoints"

    def tell(self) -> int:
        """From the first run to the verdict; returns the exit code."""
        self._write_rows()
        say.out(
            f"1. {ROWS} rows: a counter that a slow model plays with tools. "
            f"{CONCURRENCY} in flight, with a checkpoint directory:"
        )
        say.out(f"   $ triocollect {shlex.join(self._arguments())}")
        ran_s, ended_s = self._run_until_preempted()
        before = self.output.read_bytes()
        finished = before.count(b"\n")
        say.out(
            f"2. TERM after {ran_s:.1f} s, as when a job is preempted. {ended_s:.1f} s later collector and"
        )
        say.out(f"   servers are gone (exit code {Exit.LEFT.value}). {finished} results are on disk, and")
        say.out(f"   {self._checkpoint()}")
        say.out("3. The same command again, with new servers:")
        report = self._run_to_the_end()
        say.out(f"   {rows(report.sends)} were sent, those that had been in flight first.")
        return self._verdict(before, report)

    def _checkpoint(self) -> str:
        found = examine(self.checkpoints)
        if found.checkpoint_id is None:
            raise DeploymentError(f"no checkpoint in {self.checkpoints}: {found.faults}")
        return (
            f"a checkpoint of {found.bytes} bytes: {rows(len(found.continued))} in flight, "
            f"with {found.work_s or 0.0:.0f} s of work behind them."
        )

    def _verdict(self, before: bytes, report: Report) -> int:
        verified = verify_run([Place(self.output, self.checkpoints)], self.folder)
        account, [checkpoint] = verified.account, verified.checkpoints
        assert account is not None
        say.out(f"4. {report.succeeded} of {report.expected} succeeded, {report.failed} failed.")
        for words in saved(account):
            say.out(f"   {words}")
        facts = {
            "every row is there": report.succeeded == report.expected == ROWS,
            "the results of the first run are untouched": self.output.read_bytes().startswith(before),
            "no finished row was sent again": report.sends == report.expected - before.count(b"\n"),
            "every row in flight went on, and nothing was done for nothing": (
                account.continued == len(checkpoint.continued) > 0 == account.lost
            ),
            **{fact.says: fact.holds for fact in verified.facts if fact.name in TOLD},
            f"all {len(verified.facts)} questions of triocollect verify are answered": (
                all(fact.verdict == "yes" for fact in verified.facts)
            ),
        }
        for fact, holds in facts.items():
            say.out(f"   {'yes' if holds else 'NO '}  {fact}")
        mean = "none" if report.mean_reward is None else f"{report.mean_reward:.3f}"
        say.out(f"   mean reward {mean}")
        return 0 if all(facts.values()) else 1

    def _write_rows(self) -> None:
        with (self.folder / "rows.jsonl").open("w") as out, datasets.path("counter").open() as lines:
            out.writelines(islice(lines, ROWS))

    def _arguments(self) -> list[str]:
        told = {"-i": self.folder / "rows.jsonl", "-o": self.output, "-c": CONCURRENCY}
        places = {**told, "--checkpoint-dir": self.checkpoints}
        return ["run", *(str(word) for pair in places.items() for word in pair)]

    def _environment(self) -> Mapping[str, str]:
        """Nothing of the user's own settings; the servers write down what is done to them."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("TRIOCOLLECT_")}
        effects = str(self.folder / EFFECTS)
        return {**kept, "TRIOCOLLECT_EFFECTS_DIR": effects, "TRIOCOLLECT_TOKENS_PER_S": str(TOKENS_PER_S)}

    def _start(self, log: Path, *more: str) -> subprocess.Popen[bytes]:
        with log.open("wb") as words:
            return subprocess.Popen(  # noqa: S603  # our own interpreter and arguments
                [sys.executable, "-m", "triocollect", *self._arguments(), "--progress", "plain", *more],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=words,
                env=self._environment(),
            )

    def _run_until_preempted(self) -> tuple[float, float]:
        """Seconds until TERM, and from there to the end."""
        began = time.monotonic()
        log = self.folder / "first.log"
        with self._start(log) as child:
            try:
                deadline = time.monotonic() + PATIENCE_S
                while _lines(self.output) < PREEMPT_AT and child.poll() is None:
                    if time.monotonic() > deadline:
                        break
                    time.sleep(0.01)
                child.send_signal(signal.SIGTERM)
                told = time.monotonic()
                child.communicate(timeout=PATIENCE_S)
                ended = time.monotonic()
            finally:
                child.kill()
        if child.returncode != Exit.LEFT:
            raise DeploymentError(
                f"the first run ended with {child.returncode}, not {Exit.LEFT.value}:\n{log.read_text()}"
            )
        return told - began, ended - told

    def _run_to_the_end(self) -> Report:
        log = self.folder / "second.log"
        with self._start(log, "--json") as child:
            try:
                told, _ = child.communicate(timeout=PATIENCE_S)
            finally:
                child.kill()
        if child.returncode not in {0, 3}:
            raise DeploymentError(f"the second run failed (exit code {child.returncode}):\n{log.read_text()}")
        return msgspec.json.decode(told, type=Report)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
