"""`triocollect gc`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.where import CHECKPOINT_DIR, JSON, OUTPUT, PATH, places_at
from triocollect.errors import Exit
from triocollect.reading.sweeping import sweep

ABOUT = """What a killed run may leave: folders of checkpoints that were never finished, temporaries of ours,
and checkpoints beyond the two that are kept. What LATEST names stays, and so does every file that is not
ours. A run does the same by itself after each checkpoint, a stopped one when it is continued;
this is for a run that does not come back."""
EPILOGUE = """Examples:
  triocollect gc results/ --dry-run
  triocollect gc checkpoints/

Exit codes:
  0  done, or nothing to do
  1  internal error, or something could not be removed: it is named
  2  there is nothing of a run to look at
  4  refused: a collector is at work there, or may be; nothing was removed"""

app = command("gc", "PATH [FLAGS]", ABOUT, EPILOGUE)


@app.default
def gc(
    path: Annotated[str, PATH],
    /,
    *,
    dry_run: Annotated[
        bool, Parameter(help="Say what would be removed; remove nothing.", negative="", show_default=False)
    ] = False,
    checkpoint_dir: Annotated[str | None, CHECKPOINT_DIR] = None,
    output: Annotated[str | None, OUTPUT] = None,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Sweep, and tell."""
    found = places_at(Path(path), output=output, checkpoint_dir=checkpoint_dir)
    swept = sweep(found, dry_run=dry_run)
    say.out(swept.as_json().decode() if json else swept.text())
    return Exit.INTERNAL if swept.troubles else Exit.OK
