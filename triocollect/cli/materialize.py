"""`triocollect materialize`."""

import trio

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.dry_run import dry_run, routing_of
from triocollect.cli.flags import Flags, Overrides, settle
from triocollect.collector.agreement import sha256_of
from triocollect.config.settings import Config
from triocollect.errors import WouldOverwriteError
from triocollect.gym.routing import Router
from triocollect.rows.materialize import Materialized, draft_rows
from triocollect.rows.names import materialized_path

ABOUT = """Writes the expanded rows that `run` would send to <output stem>_materialized_inputs.jsonl, and
stops. Takes the flags of `run`, and with --config FILE.json Gym's own field names. Agents of rows that name
only a task source are filled in where --head-server tells them."""
EPILOGUE = """Examples:
  triocollect materialize -i rows.jsonl -o out.jsonl -r 4
  triocollect materialize -i rows.jsonl -o out.jsonl --config gym.json

Exit codes:
  0  written
  1  internal error
  2  usage or bad input
  4  refused: the rows of an earlier run are other ones, and it has results"""

app = command("materialize", "[FLAGS] [+key=value …]", ABOUT, EPILOGUE)


@app.default
def materialize(*overrides: Overrides, flags: Flags | None = None) -> int:
    """Expand and write."""
    resolved = settle(flags, overrides)
    for note in resolved.notes:
        say.err(f"note: {note}")
    config = resolved.config
    if flags is not None and flags.dry_run:
        return dry_run(resolved)
    rows = write_rows(config)
    for note in rows.notes:
        say.err(f"note: {note}")
    say.out(f"Materialized {rows.rows} rows: {materialized_path(config.output.path)}")
    return 0


def write_rows(config: Config) -> Materialized:
    """Expand the input into its file. Raises WouldOverwriteError where results belong to other rows."""
    output, place = config.output.path, materialized_path(config.output.path)
    asks = config.servers.head_server is not None
    router = trio.run(routing_of, config) if asks else None
    place.parent.mkdir(parents=True, exist_ok=True)
    draft, rows = draft_rows(
        config.input,
        config.routing,
        place,
        agent_of_source=router.agent_of_source if isinstance(router, Router) else None,
        agent_of_server=router.agent_of_server if isinstance(router, Router) else None,
    )
    has_results = output.exists() and output.stat().st_size > 0
    if has_results and not config.output.overwrite and sha256_of(place) != rows.sha256:
        draft.discard()
        raise WouldOverwriteError(
            f"{output} has results of other rows; give another --output, or --overwrite"
        )
    draft.commit()
    return rows
