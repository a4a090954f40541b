"""A program that collects and says at once what happens, a line each: no display is in between.

A line is the event's name, the seconds of a monotonic clock, and at a checkpoint's end the bytes of its
records.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import trio

import triocollect
from tests.bench.harness import PYTHON
from triocollect.deployment import datasets
from triocollect.events import CheckpointEnded, CheckpointStarted, Event, RowSent


class Crowd(NamedTuple):
    """So many lines of the data set (128 at most), so often each, so many rows in flight at once."""

    lines: int
    repeats: int
    in_flight: int


def main(folder: Path, crowd: Crowd, *where: str) -> None:
    """Collect rows of the counter into the folder, with checkpoints beside, until killed or stopped.

    `where`: settings of the servers, `head_server=URL`; the embedded deployment without.
    """
    config = triocollect.load_config(
        {
            "input": str(datasets.path("counter")),
            "limit": crowd.lines,
            "num_repeats": crowd.repeats,
            "output": str(folder / "out.jsonl"),
            "concurrency": crowd.in_flight,
            "resume": "auto",
            "checkpoint_dir": str(folder / "ckpt"),
            **from_words(where),
        }
    )

    def tell(event: Event) -> None:
        if isinstance(event, RowSent | CheckpointStarted | CheckpointEnded):
            size = event.outcome.bytes if isinstance(event, CheckpointEnded) else 0
            sys.stdout.write(f"{type(event).__name__} {time.perf_counter():.6f} {size}\n")
            sys.stdout.flush()

    async def collect() -> None:
        await triocollect.collect(config, signals=True, listener=tell)

    trio.run(collect)


def from_words(where: Sequence[str]) -> dict[str, str | int | list[str]]:
    """The settings, and those of a server that no other names: `participant=KIND=URL`."""
    given = dict(setting.split("=", 1) for setting in where)
    return {name: _READ.get(name, str)(value) for name, value in given.items()}


def command(folder: Path, crowd: Crowd, *where: str) -> list[str]:
    """How to start it."""
    return [*map(str, [PYTHON, "-m", "tests.bench.telling", folder, *crowd]), *where]


_READ = {"participant": lambda value: [value], "workers": int}


def _given() -> tuple[Path, Crowd, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.telling")
    parser.add_argument("folder", type=Path)
    for name in Crowd._fields:
        parser.add_argument(name, type=int)
    parser.add_argument("where", nargs="*", metavar="SETTING=URL")
    given = parser.parse_args()
    return given.folder, Crowd(given.lines, given.repeats, given.in_flight), given.where


if __name__ == "__main__":
    folder, crowd, where = _given()
    main(folder, crowd, *where)
