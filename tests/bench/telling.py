"""A program that collects and says at once when a checkpoint starts and ends: no display is in between."""

import sys
from pathlib import Path

import trio

import triocollect
from triocollect.deployment import datasets
from triocollect.events import CheckpointEnded, CheckpointStarted, Event, RowSent


def main(folder: Path) -> None:
    """Rows of the counter in the folder, until killed."""
    config = triocollect.load_config(
        {
            "input": str(datasets.path("counter")),
            "num_repeats": 200,
            "output": str(folder / "out.jsonl"),
            "concurrency": 64,
            "checkpoint_dir": str(folder / "ckpt"),
        }
    )

    def tell(event: Event) -> None:
        if isinstance(event, RowSent | CheckpointStarted | CheckpointEnded):
            sys.stdout.write(f"{type(event).__name__}\n")
            sys.stdout.flush()

    async def collect() -> None:
        await triocollect.collect(config, signals=True, listener=tell)

    trio.run(collect)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
