"""`triocollect demo`."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import msgspec
from attrs import frozen
from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.deployment import datasets
from triocollect.deployment.provisions import require_servers
from triocollect.errors import DeploymentError, UsageError
from triocollect.records.output import scan_output
from triocollect.report.run_report import Report

ABOUT = """Collects two small data sets from the deployment that the package brings along, kills the collector
in the middle of it, runs the same command again, and checks what the two runs left."""
EPILOGUE = """Examples:
  triocollect demo
  triocollect demo --keep demo/

Exit codes:
  0  every row is there exactly once
  1  it is not, or a run failed
  2  --keep names a folder that holds a demo already, or the extra is missing"""
ROWS_EACH: Final = 32
CONCURRENCY: Final = 8
KILL_AT: Final = 20  # results that are written when the kill comes
PATIENCE_S: Final = 120.0

app = command("demo", "[--keep DIR]", ABOUT, EPILOGUE)


@app.default
def demo(
    *,
    keep: Annotated[str | None, Parameter(help="Leave everything in this folder.", metavar="DIR")] = None,
) -> int:
    """Tell the story."""
    require_servers()
    with _folder(keep) as folder:
        code = Story(folder).tell()
    where = "triocollect demo --keep DIR leaves everything" if keep is None else f"everything is in {keep}"
    say.out(f"{where}; look closer with triocollect status")
    return code


@contextlib.contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="triocollect-demo-") as folder:
            yield Path(folder)
        return
    kept = Path(keep)
    if kept.exists() and any(kept.iterdir()):
        raise UsageError(f"--keep {keep}: is not empty; name a folder that is new")
    kept.mkdir(parents=True, exist_ok=True)
    yield kept


@frozen
class Story:
    """The demo in one folder."""

    folder: Path

    @property
    def output(self) -> Path:
        """Where both runs write their results."""
        return self.folder / "out.jsonl"

    def tell(self) -> int:
        """From the first run to the verdict; returns the exit code."""
        self._write_rows()
        say.out(f"1. {2 * ROWS_EACH} rows: a counter played with tools, and sums. {CONCURRENCY} in flight:")
        say.out(f"   $ triocollect {shlex.join(self._arguments())}")
        began = time.monotonic()
        self._run_until_killed()
        before = self.output.read_bytes()
        finished = before.count(b"\n")
        torn = "" if before.endswith(b"\n") or not before else ", and a torn line"
        say.out(f"2. kill -9 after {time.monotonic() - began:.1f} s: {finished} results are on disk{torn}.")
        say.out("3. The same command again:")
        report = self._run_to_the_end()
        say.out(f"   {report.sends} rows were sent; those in flight at the kill (at most {CONCURRENCY})")
        say.out("   ran again from their input, the others for the first time.")
        return self._verdict(before[: before.rfind(b"\n") + 1], report)

    def _verdict(self, before: bytes, report: Report) -> int:
        scan = scan_output(self.output)
        facts = {
            "every row is there": len(scan.done) + report.failed == report.expected == 2 * ROWS_EACH,
            "no row is there twice": scan.duplicates.count == 0,
            "the results of the first run are untouched": self.output.read_bytes().startswith(before),
            "no finished row was sent again": report.sends == report.expected - before.count(b"\n"),
        }
        say.out(f"4. {report.succeeded} of {report.expected} succeeded, {report.failed} failed.")
        for fact, holds in facts.items():
            say.out(f"   {'yes' if holds else 'NO '}  {fact}")
        mean = "none" if report.mean_reward is None else f"{report.mean_reward:.3f}"
        say.out(f"   mean reward {mean}")
        return 0 if all(facts.values()) else 1

    def _write_rows(self) -> None:
        with (self.folder / "rows.jsonl").open("w") as rows:
            for name in ("counter", "arithmetic"):
                with datasets.path(name).open() as lines:
                    rows.writelines(islice(lines, ROWS_EACH))

    def _arguments(self) -> list[str]:
        rows = self.folder / "rows.jsonl"
        return ["run", "-i", str(rows), "-o", str(self.output), "-c", str(CONCURRENCY)]

    def _start(self, log: Path, *more: str) -> subprocess.Popen[bytes]:
        environ = {name: text for name, text in os.environ.items() if not name.startswith("TRIOCOLLECT_")}
        with log.open("wb") as words:
            return subprocess.Popen(  # noqa: S603  # our own interpreter and arguments
                [sys.executable, "-m", "triocollect", *self._arguments(), *more],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=words,
                env=environ,
            )

    def _run_until_killed(self) -> None:
        log = self.folder / "first.log"
        with self._start(log, "--progress", "plain") as child:
            try:
                deadline = time.monotonic() + PATIENCE_S
                while _lines(self.output) < KILL_AT and child.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.01)
            finally:
                child.send_signal(signal.SIGKILL)
        if child.returncode != -signal.SIGKILL:
            raise DeploymentError(f"the first run ended before it could be killed:\n{log.read_text()}")

    def _run_to_the_end(self) -> Report:
        log = self.folder / "second.log"
        with self._start(log, "--progress", "plain", "--json") as child:
            try:
                told, _ = child.communicate(timeout=PATIENCE_S)
            finally:
                child.kill()
        if child.returncode not in {0, 3}:
            raise DeploymentError(f"the second run failed (exit code {child.returncode}):\n{log.read_text()}")
        return msgspec.json.decode(told, type=Report)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
