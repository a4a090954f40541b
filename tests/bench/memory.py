"""What a run's memory grows by: with the rows, and with the size of the replies.

`<rows>x<bytes>`: so many rows, and replies of so many bytes; in `1000000x2k` inputs of so many bytes, where
the run is ended after its first 20,000 rows were sent, as it is the rows not yet sent that matter there.

Peaks are VmHWM. `rss_growth_bytes` is the peak above that of the same command on a single row with a reply of
8 kB, so what the interpreter and the imports take is not in it; materialising is, and what large replies take
while they are on their way. `bytes_per_row` is what each further row adds: the difference to the peak on a
tenth of the rows, by the difference in rows.
"""

from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.collectors import our_run
from tests.bench.data import write_rows
from tests.bench.harness import Figures, Plan, Result, medians, scratch, started, told
from tests.bench.serving import stub

_SMALL_REPLY_BYTES: Final = 8_000


class Load(NamedTuple):
    """Sizes of a case, in bytes, and after how many rows sent it is ended; None: not."""

    rows: int
    quick_rows: int
    row_bytes: int = 2_000
    reply_bytes: int = _SMALL_REPLY_BYTES
    sent: int | None = None
    quick_sent: int | None = None


_LOADS: Final = {
    "20000x20k": Load(20_000, 500, reply_bytes=20_000),
    "20000x200k": Load(20_000, 500, reply_bytes=200_000),
    "1000000x2k": Load(1_000_000, 5_000, sent=20_000, quick_sent=300),
}
CASES: Final = tuple(_LOADS)


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where the run fails or hangs."""
    load = _LOADS[case]
    rows = plan.size(load.rows, load.quick_rows)
    sent = load.quick_sent if plan.quick else load.sent
    needed = rows * load.row_bytes * 3 + (sent or rows) * load.reply_bytes * 2
    with scratch(needed_bytes=needed) as folder:
        inputs = {count: folder / f"{count}.jsonl" for count in (1, rows // 10, rows)}
        for count, path in inputs.items():
            write_rows(path, count, load.row_bytes)

        def peak(count: int, reply_bytes: int = load.reply_bytes) -> int:
            end_after = sent if sent is not None and sent < count else None
            with scratch() as home:
                return _peak_rss_bytes(inputs[count], home, reply_bytes, end_after)

        def one() -> Figures:
            alone, tenth, whole = peak(1, _SMALL_REPLY_BYTES), peak(rows // 10), peak(rows)
            return {
                "rss_growth_bytes": whole - alone,
                "bytes_per_row": (whole - tenth) / (rows - rows // 10),
                "peak_rss_bytes": whole,
            }

        return Result(rows, medians([told("ours", one()) for _ in range(plan.rounds)]))


def _peak_rss_bytes(rows: Path, home: Path, reply_bytes: int, end_after: int | None) -> int:
    """Of one run: to its end, or until so many rows were sent."""
    with stub(reply_bytes=reply_bytes) as server:
        command = our_run(rows, home / "out.jsonl", server.url)
        with started(command, home / "process.log") as child:
            if end_after is None:
                return child.wait().peak_rss_bytes
            server.await_runs(end_after, child)
            return child.kill().peak_rss_bytes
