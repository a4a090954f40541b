"""What the commands that read are told: PATH, the other half of the run where it lies elsewhere, --json."""

from pathlib import Path
from typing import Final

from cyclopts import Parameter

from triocollect.reading.places import Place, places

PATH: Final = Parameter(help="A run's folder, its output, or a checkpoint directory.")
CHECKPOINT_DIR: Final = Parameter(help="The run's checkpoints, where they lie elsewhere.", metavar="DIR")
OUTPUT: Final = Parameter(
    name=["--output", "-o"], help="The run's output, where it lies elsewhere.", metavar="FILE"
)
JSON: Final = Parameter(help="One JSON object on stdout.", negative="", show_default=False)


def places_at(path: Path, *, output: str | None, checkpoint_dir: str | None) -> list[Place]:
    """See `places`. Raises UsageError."""
    return places(
        path,
        output=None if output is None else Path(output),
        directory=None if checkpoint_dir is None else Path(checkpoint_dir),
    )
