"""CPU before anything useful happens, each against a process that does the least of its kind.

- `version`: `--version`, against an interpreter that does nothing;
- `dry_run`: `run --dry-run` on one row, against importing trio and httpx;
- `first_run`: from exec until the first row has reached the server, everything materialised, against a loop
  that decodes each row, adds two keys, encodes and writes it. Both start an interpreter; the run is ended
  once its first row has come, and the stub keeps the reply back, so nothing happens in between.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.collectors import our_run
from tests.bench.data import write_rows
from tests.bench.harness import OURS, PYTHON, Figures, Plan, Result, interleaved, measure, scratch, started
from tests.bench.serving import stub

_ROW_BYTES: Final = 2_000
_NEVER_S: Final = 86_400.0


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where a process fails."""
    with scratch(needed_bytes=1_000_000_000) as folder:
        return _MEASURED[case](plan, folder)


def _version(plan: Plan, folder: Path) -> Result:
    ours, peer = [*OURS, "--version"], [PYTHON, "-c", "pass"]
    return _commands(ours, peer, plan, folder, processes=plan.size(20, 3))


def _dry_run(plan: Plan, folder: Path) -> Result:
    source = folder / "in.jsonl"
    write_rows(source, 1, _ROW_BYTES)
    with stub() as server:
        ours = our_run(source, folder / "out.jsonl", server.url, "--dry-run")
        return _commands(ours, [PYTHON, "-c", "import trio, httpx"], plan, folder, processes=plan.size(5, 1))


def _commands(ours: list[str], peer: list[str], plan: Plan, folder: Path, *, processes: int) -> Result:
    """One process is over too soon to tell: a round is several of ours, then several of the peer's."""

    def several(command: list[str]) -> Figures:
        return {"cpu_s": sum(measure(command, folder).cpu_s for _ in range(processes)) / processes}

    return Result(processes, *interleaved(plan.rounds, lambda: several(ours), lambda: several(peer)))


def _first_run(plan: Plan, folder: Path) -> Result:
    rows = plan.size(200_000, 5_000)
    source = folder / "in.jsonl"
    write_rows(source, rows, _ROW_BYTES)

    def ours() -> Figures:
        with scratch() as home, stub(delay_s=_NEVER_S) as server:
            command = our_run(source, home / "out.jsonl", server.url, "-c", "1")
            with started(command, home / "process.log") as child:
                server.await_runs(1, child)
                return {"cpu_s": child.kill().cpu_s}

    def peer() -> Figures:
        command = [
            PYTHON,
            "-m",
            "tests.bench.peers.materialize_loop",
            str(source),
            str(folder / "peer.jsonl"),
        ]
        return {"cpu_s": measure(command, folder).cpu_s}

    return Result(rows, *interleaved(plan.rounds, ours, peer))


_MEASURED: Final[dict[str, Callable[[Plan, Path], Result]]] = {
    "version": _version,
    "dry_run": _dry_run,
    "first_run": _first_run,
}
CASES: Final = tuple(_MEASURED)
