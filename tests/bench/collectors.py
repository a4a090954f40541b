"""The two collectors, by their command lines, and whether they gave the same."""

import hashlib
from pathlib import Path

import orjson

from tests.bench.harness import OURS, PYTHON, BenchError


def our_run(rows: Path, output: Path, url: str, *more: str) -> list[str]:
    """`triocollect run` as a user would write it against one environment server."""
    run = [*OURS, "run", "-i", str(rows), "-o", str(output), "--environment-url", url]
    return [*run, "--progress", "none", "--disable-aggregation", *more]


def peer_run(rows: Path, output: Path, url: str, concurrency: int) -> list[str]:
    """The asyncio collector on the same rows."""
    peer = [PYTHON, "-m", "tests.bench.peers.asyncio_collector", "-i", str(rows), "-o", str(output)]
    return [*peer, "-c", str(concurrency), "--url", url]


def digests(output: Path, rows: int) -> set[bytes]:
    """The records of an output, whatever their order and that of their keys.

    Raises BenchError where there are not exactly so many, all different.
    """
    found, lines = set[bytes](), 0
    with output.open("rb") as records:
        for lines, line in enumerate(records, start=1):  # noqa: B007  # the last number is the count
            record = orjson.dumps(orjson.loads(line), option=orjson.OPT_SORT_KEYS)
            found.add(hashlib.blake2b(record, digest_size=16).digest())
    if not len(found) == lines == rows:
        raise BenchError(f"{output}: {lines} records, {len(found)} different, for {rows} rows")
    return found


def require_same(ours: Path, peers: Path, rows: int) -> None:
    """Raises BenchError, showing two records, where the outputs differ as sets."""
    if digests(ours, rows) != digests(peers, rows):
        firsts = "\n".join(f"{path}: {_head(path)}" for path in (ours, peers))
        raise BenchError(f"the two collectors gave different records, for example\n{firsts}")


def _head(path: Path) -> str:
    """The end of the first record: the stamps are there."""
    with path.open("rb") as records:
        return "…" + records.readline()[-600:].decode(errors="replace").strip()
