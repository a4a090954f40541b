"""The least that a checkpoint can cost: the files of a folder written again, one after another, as durably.

`python -m tests.bench.peers.write_files FROM TO`: each file is drafted, synced, moved to its place, and its
folder synced. Prints the seconds that took; reading is not timed.
"""

import os
import sys
import time
from pathlib import Path


def main(source: Path, target: Path) -> None:
    """Write every file of `source` below `target`."""
    paths = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    files = [(target / path, (source / path).read_bytes()) for path in paths]
    began = time.perf_counter()
    for path, data in files:
        write(path, data)
    sys.stdout.write(f"{time.perf_counter() - began}\n")


def write(path: Path, data: bytes) -> None:
    """One file, whole or not at all."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True)
        sync(path.parent.parent)
    draft = path.with_name(f".{path.name}.tmp")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Make its names durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
