"""`triocollect status`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.report.status import status as read_status

ABOUT = "Changes nothing and asks no server; works while the run goes on."
EPILOGUE = """Examples:
  triocollect status out.jsonl
  triocollect status results/ --json

Exit codes:
  0  told, whatever the run's state is
  1  internal error
  2  there is no output to look at"""

app = command("status", "PATH [--json]", ABOUT, EPILOGUE)


@app.default
def status(
    path: Annotated[str, Parameter(help="An output, or a folder of outputs.")],
    /,
    *,
    json: Annotated[
        bool, Parameter(help="One JSON object on stdout.", negative="", show_default=False)
    ] = False,
) -> int:
    """Look, and tell."""
    found = read_status(Path(path))
    say.out(found.as_json().decode() if json else found.text())
    return 0
