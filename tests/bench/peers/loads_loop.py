"""What `resume` is measured against: decode every line of an output."""

import sys
from pathlib import Path

import orjson


def scan(output: Path) -> None:
    """Decode each record and let it go."""
    with output.open("rb") as records:
        for line in records:
            orjson.loads(line)


if __name__ == "__main__":
    scan(Path(sys.argv[1]))
