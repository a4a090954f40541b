"""Real processes, measured: their CPU, their wall time, their peak memory; and the shape of a line."""

import os
import select
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

Figures: TypeAlias = Mapping[str, float]

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = sys.executable
OURS: Final = (PYTHON, "-m", "triocollect")
DEADLINE_S: Final = 1800.0  # of one process; a bench that hangs says so
SAMPLE_S: Final = 0.02  # between two looks at a process's memory

# Settings of the caller's shell that would change what is measured, or where it is sent.
_FOREIGN: Final = ("TRIOCOLLECT_", "NEMO_GYM_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class BenchError(Exception):
    """A measurement that must not be printed: a process failed, hung, or differs from its peer."""


class Plan(NamedTuple):
    """How often, and whether only to look for gross errors."""

    rounds: int
    quick: bool

    def size(self, full: int, quick: int) -> int:
        """How many rows, or seconds, of a case."""
        return quick if self.quick else full


class Result(NamedTuple):
    """One line's figures: medians over the rounds. `n` counts rows, or processes where there are no rows."""

    n: int
    ours: Figures
    peer: Figures = MappingProxyType({})
    against: Mapping[str, tuple[str, str]] = MappingProxyType({})  # a ratio's name: ours, the peer's

    @property
    def ratio(self) -> Figures:
        """Ours by the peer's, of every figure that both have and of those that are set `against` another."""
        same = {name: (name, name) for name in self.peer if name in self.ours}
        pairs = {**same, **self.against}
        return {name: self.ours[ours] / self.peer[peers] for name, (ours, peers) in pairs.items()}


class Usage(NamedTuple):
    """What one process took. CPU is user and system time of it and of the children it waited for."""

    exit_code: int
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int  # VmHWM, looked at every 20 ms and before a kill


class Child:
    """A process that is measured while it runs. Its output goes to a file, shown when it fails."""

    def __init__(self, command: Sequence[str], log: Path, settings: Mapping[str, str]) -> None:
        self.command, self.log = tuple(command), log
        self._usage: Usage | None = None
        self._peak_rss_bytes = 0
        self._began = time.perf_counter()
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=ROOT,
                env={**environment(), **settings},
            )
        self._pidfd = os.pidfd_open(self._process.pid)

    def ended(self, within_s: float) -> bool:
        """Wait so long for its end, and look at its memory."""
        if self._usage is None:
            self._look()
            if select.select([self._pidfd], [], [], within_s)[0]:
                self._reap()
        return self._usage is not None

    def wait(self, deadline_s: float = DEADLINE_S, codes: Collection[int] = (0,)) -> Usage:
        """What it took until it ended by itself. Raises BenchError where it ended otherwise, or hung."""
        while not self.ended(SAMPLE_S):
            if time.perf_counter() - self._began > deadline_s:
                raise BenchError(f"{shlex.join(self.command)} still runs after {deadline_s:.0f} s")
        assert self._usage is not None
        if self._usage.exit_code not in codes:
            raise BenchError(self.words(f"ended with {self._usage.exit_code}"))
        return self._usage

    def terminate(self) -> None:
        """Send SIGTERM to a process that has not ended."""
        if self._usage is None:
            self._process.terminate()

    def kill(self) -> Usage:
        """What it took until now. Does nothing to a process that has ended."""
        if self._usage is None:
            self._look()
            self._process.kill()
            self._reap()
        assert self._usage is not None
        return self._usage

    def words(self, what: str) -> str:
        """What happened to this process, with the end of its output."""
        return f"{shlex.join(self.command)} {what}:\n{self.log.read_text(errors='replace')[-2000:]}"

    def _look(self) -> None:
        self._peak_rss_bytes = max(self._peak_rss_bytes, _peak_rss_bytes(self._process.pid))

    def _reap(self) -> None:
        _, status, spent = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self._pidfd)
        self._usage = Usage(
            exit_code=self._process.returncode,
            wall_s=time.perf_counter() - self._began,
            cpu_s=spent.ru_utime + spent.ru_stime,
            # Not ru_maxrss: after fork and exec it starts at the peak of the process that forked.
            peak_rss_bytes=self._peak_rss_bytes,
        )


@contextmanager
def started(
    command: Sequence[str], log: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Child]:
    """A process that does not outlive the block; `settings`: what its environment has beside the usual."""
    with ExitStack() as owned:
        with _signals_wait():
            child = Child(command, log, settings)
            owned.callback(child.kill)
        yield child


def measure(command: Sequence[str], folder: Path) -> Usage:
    """What a process took from its start to its end. Raises BenchError where it failed."""
    with started(command, folder / "process.log") as child:
        return child.wait()


def interleaved(
    rounds: int, ours: Callable[[], Figures], peer: Callable[[], Figures]
) -> tuple[Figures, Figures]:
    """Medians of ours, peer, ours, peer, …: what else the machine does falls on both."""
    both = [(told("ours", ours()), told("peer", peer())) for _ in range(rounds)]
    return medians([one for one, _ in both]), medians([other for _, other in both])


def medians(measured: Sequence[Figures]) -> Figures:
    """The median of each figure over the rounds."""
    return {name: statistics.median(figures[name] for figures in measured) for name in measured[0]}


def told(who: str, figures: Figures) -> Figures:
    """The same figures, said on stderr: nobody waits many minutes without a word."""
    note(f"  {who}: " + ", ".join(f"{name} {value:,.5g}" for name, value in figures.items()))
    return figures


def note(text: str) -> None:
    """A word to the person who waits; stdout carries JSON lines and nothing else."""
    sys.stderr.write(f"{text}\n")


@contextmanager
def scratch(needed_bytes: int = 0) -> Iterator[Path]:
    """A folder that is gone afterwards. Raises BenchError where the files to come would not fit."""
    with tempfile.TemporaryDirectory(prefix="triocollect-bench-") as name:
        free_bytes = shutil.disk_usage(name).free
        if free_bytes < needed_bytes:
            raise BenchError(
                f"{name}: {needed_bytes / 1e9:.1f} GB needed, {free_bytes / 1e9:.1f} GB free; "
                "set TMPDIR to a folder with more room"
            )
        yield Path(name)


def environment() -> dict[str, str]:
    """Of every process that a bench starts: the caller's, without what would change the measurement."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(_FOREIGN)}


def end_children_on_term() -> None:
    """Let SIGTERM unwind the blocks that own the processes, as Ctrl-C does."""

    def leave(_signum: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Between the fork and the owner of the process no signal may unwind: the process would go on alone."""
    arrived = list[int]()

    def note_arrival(signum: int, _frame: object) -> None:
        arrived.append(signum)

    handlers = {signum: signal.signal(signum, note_arrival) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        for waiting in arrived:
            signal.raise_signal(waiting)


def _peak_rss_bytes(pid: int) -> int:
    """0 for a process that is just ending."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except ProcessLookupError:
        return 0
    _, found, rest = status.partition(b"VmHWM:")
    return int(rest.split(maxsplit=1)[0]) * 1024 if found else 0
