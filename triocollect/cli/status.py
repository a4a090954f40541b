"""`triocollect status`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.where import CHECKPOINT_DIR, JSON, OUTPUT, PATH, places_at
from triocollect.errors import Exit
from triocollect.reading.run_status import run_status_of

ABOUT = """What is done, failed and left; what was in flight when it was last written down, and what of it the
same command would continue and what it would start from the input; the last checkpoints; whether a collector
is at work. Changes nothing, takes no lock and asks no server; works while the run goes on."""
EPILOGUE = """Examples:
  triocollect status results/
  triocollect status out.jsonl --checkpoint-dir /scratch/checkpoints
  triocollect status checkpoints/ --json

Exit codes:
  0  told, whatever the run's state is
  1  internal error
  2  there is nothing of a run to look at
  4  told, and something there is damaged: it is named"""

app = command("status", "PATH [FLAGS]", ABOUT, EPILOGUE)


@app.default
def status(
    path: Annotated[str, PATH],
    /,
    *,
    checkpoint_dir: Annotated[str | None, CHECKPOINT_DIR] = None,
    output: Annotated[str | None, OUTPUT] = None,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Look, and tell."""
    found = run_status_of(places_at(Path(path), output=output, checkpoint_dir=checkpoint_dir))
    say.out(found.as_json().decode() if json else found.text(datetime.now(UTC)))
    return Exit.REFUSED if found.damaged else Exit.OK
