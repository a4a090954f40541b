"""CPU per row with telemetry off and on, each against the same program without a hook for it.

- `collector`: 50,000 rows against a stub, the load of `dispatch 256`: what a row costs the collector alone;
- `deployment`: rows of the counter on the embedded servers, whose CPU is counted too.

Without hooks is a copy of the package from which their calls are taken out (`peers/without_telemetry.py`);
the others run from a copy as well. On means `--telemetry otlp`, all spans kept, to a store that takes them at
once, and that is asked afterwards whether it has got them all.
"""

import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.data import write_rows
from tests.bench.harness import (
    PYTHON,
    ROOT,
    BenchError,
    Figures,
    Plan,
    Result,
    environment,
    medians,
    scratch,
    started,
    told,
)
from tests.bench.peers.without_telemetry import copy_package
from tests.bench.serving import stub
from triocollect.deployment import datasets

CASES: Final = ("collector", "deployment")
_WAYS: Final = ("without", "off", "on")
_ROW_BYTES: Final = 2_000
_REPLY_BYTES: Final = 8_000
_RUN: Final = (PYTHON, "-m", "triocollect", "run", "--progress", "none", "--disable-aggregation")


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where a run fails, or a span is missing."""
    rows = plan.size(50_000, 400) if case == "collector" else plan.size(500, 20)
    with scratch(needed_bytes=rows * 40_000) as folder:
        for hooks in (True, False):
            copy_package(ROOT / "triocollect", folder / f"hooks-{hooks}", hooks=hooks)
        source = folder / "in.jsonl"
        if case == "collector":
            write_rows(source, rows, _ROW_BYTES)
        else:
            source.write_bytes(datasets.path("counter").read_bytes())
        rounds = [_round(number, case, folder, source, rows) for number in range(plan.rounds)]
    found = medians(rounds)
    ours = {f"cpu_s_per_1000_{way}": found[way] for way in ("off", "on")}
    return Result(rows, ours, dict.fromkeys(ours, found["without"]))


def _round(number: int, case: str, folder: Path, source: Path, rows: int) -> Figures:
    """CPU seconds per 1,000 rows, each way once, and another one first in each round."""
    turn = number % len(_WAYS)
    ways = _WAYS[turn:] + _WAYS[:turn]
    figures = {way: _one(case, way, folder, source, rows) / rows * 1000 for way in ways}
    return told(case, figures)


def _one(case: str, way: str, folder: Path, source: Path, rows: int) -> float:
    """CPU seconds of a whole process, and of the servers that it starts."""
    settings = {"PYTHONPATH": str(folder / f"hooks-{way != 'without'}"), "PYTHONSAFEPATH": "1"}
    with scratch() as home, store() as port:
        command = [*_RUN, "-i", str(source), "-o", str(home / "out.jsonl"), "-c", "256"]
        if way == "on":
            settings["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{port}"
            command += ["--telemetry", "otlp"]
        if case == "collector":
            with stub(reply_bytes=_REPLY_BYTES) as server:
                cpu_s = _cpu_s([*command, "--environment-url", server.url], home, settings)
        else:
            repeats = ["--limit", str(rows // 4), "-r", "4"]
            cpu_s = _cpu_s([*command, *repeats], home, settings)
        if way == "on":
            _require_spans(port, case, rows)
    return cpu_s


def _cpu_s(command: list[str], home: Path, settings: Mapping[str, str]) -> float:
    with started(command, home / "process.log", settings) as child:
        return child.wait().cpu_s


def _require_spans(port: int, case: str, rows: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
        found = int(answer.read())
    least = 2 * rows + 1 if case == "collector" else 10 * rows
    if found < least:
        raise BenchError(f"{found} spans have come of {least} at least")


@contextmanager
def store() -> Iterator[int]:
    """A store of telemetry; its port."""
    with subprocess.Popen(
        [PYTHON, "-m", "tests.bench.store"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            assert process.stdin is not None
            process.stdin.close()
