"""Rows per second and CPU per row: `triocollect run` against the asyncio collector on the same stub.

2 kB up, 8 kB down. Whole processes are measured, from exec to exit: start, materialising, sending, writing
and syncing are all in. There are about 20,000 rows, so a start of half a second is a few percent. Up to 256
in flight replies come at once; above, after 1 s, in waves, as nobody has thousands of replies at once.
"""

from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.collectors import our_run, peer_run, require_same
from tests.bench.data import write_rows
from tests.bench.harness import BenchError, Figures, Plan, Result, interleaved, measure, scratch
from tests.bench.serving import stub


class Load(NamedTuple):
    """How many rows, how many of them at once, and when the stub answers."""

    concurrency: int
    rows: int
    quick_rows: int
    delay_s: float = 0.0
    quick_delay_s: float = 0.0


_LOADS: Final = {
    "16": Load(16, 20_000, 400),
    "256": Load(256, 20_000, 400),
    "2048": Load(2048, 20_480, 2_048, delay_s=1.0, quick_delay_s=0.2),
    "4096": Load(4096, 20_480, 4_096, delay_s=1.0, quick_delay_s=0.2),
}
CASES: Final = tuple(_LOADS)
_ROW_BYTES: Final = 2_000
_REPLY_BYTES: Final = 8_000


def measure_case(case: str, plan: Plan) -> Result:
    """Raises BenchError where a collector fails, sends a row twice, or the two outputs differ."""
    load = _LOADS[case]
    rows = plan.size(load.rows, load.quick_rows)
    delay_s = load.quick_delay_s if plan.quick else load.delay_s
    with scratch(needed_bytes=rows * 4 * (_ROW_BYTES + _REPLY_BYTES)) as folder:
        source = folder / "in.jsonl"
        write_rows(source, rows, _ROW_BYTES)

        def one(who: str) -> Figures:
            home = folder / who
            _emptied(home)
            output = home / "out.jsonl"
            with stub(reply_bytes=_REPLY_BYTES, delay_s=delay_s) as server:
                if who == "ours":
                    command = our_run(source, output, server.url, "-c", str(load.concurrency))
                else:
                    command = peer_run(source, output, server.url, load.concurrency)
                usage = measure(command, home)
                runs, waiting_max = server.stats()
            if runs != rows or waiting_max > load.concurrency:
                raise BenchError(f"{who}: {runs} requests for {rows} rows, {waiting_max} of them at once")
            return {"rows_per_s": rows / usage.wall_s, "cpu_s_per_1000": usage.cpu_s / rows * 1000}

        def peer() -> Figures:
            figures = one("peer")
            require_same(folder / "ours" / "out.jsonl", folder / "peer" / "out.jsonl", rows)
            return figures

        return Result(rows, *interleaved(plan.rounds, lambda: one("ours"), peer))


def _emptied(home: Path) -> None:
    home.mkdir(exist_ok=True)
    for left in home.iterdir():
        left.unlink()
