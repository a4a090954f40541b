"""`triocollect aggregate`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.errors import Exit
from triocollect.report.aggregate import aggregate_outputs

ABOUT = """Needs no server. Shards of one run are put together; a row that two outputs hold with other bytes
is refused, because then they are two runs."""
EPILOGUE = """Examples:
  triocollect aggregate out.jsonl
  triocollect aggregate shard-*.jsonl -o all.jsonl
  triocollect aggregate results/ --json

Exit codes:
  0  told, and written if asked
  1  internal error
  2  there is no output to look at
  4  refused: the outputs contradict each other, or hold no result and damage"""

app = command("aggregate", "PATH … [FLAGS]", ABOUT, EPILOGUE)


@app.default
def aggregate(
    *outputs: Annotated[str, Parameter(help="Outputs, or folders of outputs.")],
    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            help="Write Gym's file, <stem>_aggregate_metrics.json, named after this output.",
            metavar="FILE",
        ),
    ] = None,
    json: Annotated[
        bool, Parameter(help="One JSON object on stdout.", negative="", show_default=False)
    ] = False,
) -> int:
    """Read, and tell."""
    found = aggregate_outputs([Path(path) for path in outputs])
    say.out(found.as_json().decode() if json else found.tables())
    if output is not None:
        say.err(f"Aggregate metrics: {found.write(Path(output))}")
    return Exit.REFUSED if found.only_damage else Exit.OK
