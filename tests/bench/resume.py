"""How fast a finished output is read again: a run that finds everything done, against decoding every line.

The output is one that `triocollect run` itself made, with replies of text or of token ids and their log
probabilities, so that whatever a run leaves beside it is there. Measured is the whole second command. The
input rows are short: what is looked at is the output.
"""

from pathlib import Path
from typing import Final

from tests.bench.collectors import our_run
from tests.bench.data import Shape, write_rows
from tests.bench.harness import PYTHON, BenchError, Figures, Plan, Result, interleaved, measure, scratch
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
        megabytes = output.stat().st_size / 1e6
        scan = [PYTHON, "-m", "tests.bench.peers.loads_loop", str(output)]
        return Result(
            rows,
            *interleaved(
                plan.rounds,
                lambda: _resumed(source, output, folder),
                lambda: {"mb_per_s": megabytes / measure(scan, folder).wall_s},
            ),
        )


def _resumed(source: Path, output: Path, folder: Path) -> Figures:
    before = output.stat()
    with stub() as server:
        usage = measure(our_run(source, output, server.url, "--resume", "must"), folder)
        runs = server.stats().runs
    after = output.stat()
    if runs or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise BenchError(f"a finished run was not left alone: {runs} rows sent again")
    return {"mb_per_s": before.st_size / 1e6 / usage.wall_s, "peak_rss_bytes": usage.peak_rss_bytes}
