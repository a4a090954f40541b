"""How fast a finished output is read again: the scan of a resumed run against decoding every line.

The output is one that `triocollect run` itself made, with replies of text or of token ids and their log
probabilities. `mb_per_s` is of the scan alone, a process like the peer's that imports, reads and ends.
`peak_rss_bytes` is of the whole command `run --resume must`, which has to find everything done, send nothing
and leave the output alone; how fast that is in all goes to stderr, as it depends on how many rows there are.
"""

from pathlib import Path
from typing import Final

from tests.bench.collectors import our_run
from tests.bench.data import Shape, write_rows
from tests.bench.harness import PYTHON, BenchError, Plan, Result, interleaved, measure, note, scratch
from tests.bench.serving import stub

_SHAPES: Final[dict[str, Shape]] = {"text": "text", "tokens": "tokens"}
CASES: Final = tuple(_SHAPES)
_OUTPUT_BYTES: Final = 2_000_000_000
_QUICK_OUTPUT_BYTES: Final = 50_000_000
_ROW_BYTES: Final = 600
_REPLY_BYTES: Final = 20_000


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where a finished run is not found finished, or its output is touched."""
    output_bytes = plan.size(_OUTPUT_BYTES, _QUICK_OUTPUT_BYTES)
    rows = output_bytes // _REPLY_BYTES
    with scratch(needed_bytes=output_bytes * 3 // 2) as folder:
        source, output = folder / "in.jsonl", folder / "out.jsonl"
        write_rows(source, rows, _ROW_BYTES)
        with stub(shape=_SHAPES[case], reply_bytes=_REPLY_BYTES) as server:
            measure(our_run(source, output, server.url), folder)
        ours = [PYTHON, "-m", "tests.bench.scan_loop", str(output)]
        peer = [PYTHON, "-m", "tests.bench.peers.loads_loop", str(output)]
        return Result(
            rows,
            *interleaved(
                plan.rounds,
                lambda: _scanned(ours, output, folder) | {"peak_rss_bytes": _resumed(source, output, folder)},
                lambda: _scanned(peer, output, folder),
            ),
        )


def _scanned(scan: list[str], output: Path, folder: Path) -> dict[str, float]:
    return {"mb_per_s": output.stat().st_size / 1e6 / measure(scan, folder).wall_s}


def _resumed(source: Path, output: Path, folder: Path) -> int:
    """The peak memory of the whole command."""
    before = output.stat()
    with stub() as server:
        usage = measure(our_run(source, output, server.url, "--resume", "must"), folder)
        runs = server.stats().runs
    after = output.stat()
    if runs or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise BenchError(f"a finished run was not left alone: {runs} rows sent again")
    note(f"  ours: the whole run, {before.st_size / 1e6 / usage.wall_s:,.5g} MB/s")
    return usage.peak_rss_bytes
