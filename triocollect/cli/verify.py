"""`triocollect verify`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.where import CHECKPOINT_DIR, JSON, OUTPUT, PATH, places_at
from triocollect.errors import Exit
from triocollect.reading.examining import verify_run

ABOUT = """Reads what a run left and asks what must hold: every row has one result at most, attempts only go
up, the rows are those that the run began with, every byte of LATEST and of the other kept checkpoints is what
was written, every row that they continue is in them; and, where the servers wrote down what was done to them
(TRIOCOLLECT_EFFECTS_DIR), every result came about in one line although its rollout was cut and continued.
Answers yes, NO, or ? where the files do not tell. Changes nothing and asks no server.

What lies in the folder is found: outputs, checkpoint directories, and effects in the folder 'effects'; name
them where they lie elsewhere."""
EPILOGUE = """Examples:
  triocollect demo --keep demo && triocollect verify demo
  triocollect verify out.jsonl --checkpoint-dir /scratch/checkpoints
  triocollect verify results/ --json

Exit codes:
  0  nothing is wrong; what cannot be judged is named
  1  internal error
  2  there is nothing to look at
  4  something does not add up: it is named"""

app = command("verify", "PATH [FLAGS]", ABOUT, EPILOGUE)


@app.default
def verify(
    path: Annotated[str, PATH],
    /,
    *,
    checkpoint_dir: Annotated[str | None, CHECKPOINT_DIR] = None,
    output: Annotated[str | None, OUTPUT] = None,
    effects: Annotated[str | None, Parameter(help="What its servers wrote down.", metavar="DIR")] = None,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Look, recompute, and tell."""
    place = Path(path)
    found = verify_run(
        places_at(place, output=output, checkpoint_dir=checkpoint_dir),
        place if place.is_dir() else place.parent,
        None if effects is None else Path(effects),
    )
    say.out(found.as_json().decode() if json else found.text())
    return Exit.OK if found.holds else Exit.REFUSED
