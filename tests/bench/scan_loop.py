"""Our side of `resume`: what a resumed run does with the output before anything else."""

import sys
from pathlib import Path

from triocollect.records.output import scan_output


def scan(output: Path) -> None:
    """Find what is done. Raises ValueError where a line of this output, which is whole, does not count."""
    found = scan_output(output)
    if faults := [*found.damaged.words(), *found.duplicates.words(), *found.failures.words()]:
        raise ValueError("\n".join(faults))


if __name__ == "__main__":
    scan(Path(sys.argv[1]))
