"""`triocollect materialize`."""

import os
import tempfile
from pathlib import Path

import msgspec
import trio

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.dry_run import routing_of
from triocollect.cli.flags import MaterializeFlags, Overrides, settle, tell_beside
from triocollect.collector.agreement import sha256_of
from triocollect.collector.drafting import draft_of
from triocollect.collector.lock import lock_output
from triocollect.collector.lock import lockable as output_lockable
from triocollect.config.settings import Config
from triocollect.errors import WouldOverwriteError
from triocollect.gym.routing import Routing
from triocollect.report.machine import as_json
from triocollect.report.wording import several
from triocollect.rows.materialize import Materialized
from triocollect.rows.names import materialized_path

ABOUT = """Writes the expanded rows that `run` would send to <output stem>_materialized_inputs.jsonl, and
stops. Takes every flag of `run`, also those that change no row and are not shown here, and with --config
FILE.json Gym's own field names. Agents of rows that name only a task source are filled in where --head-server
tells them."""
EPILOGUE = """Examples:
  triocollect materialize -i rows.jsonl -o out.jsonl -r 4
  triocollect materialize -i rows.jsonl -o out.jsonl --config gym.json

Exit codes:
  0  written
  1  internal error
  2  usage or bad input
  4  refused: a collector is at work there, or results are there of other rows"""

app = command("materialize", "[FLAGS] [+key=value …]", ABOUT, EPILOGUE)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` tells: so many rows, in that file."""

    rows: int
    materialized: str
    notes: tuple[str, ...]


@app.default
def materialize(*overrides: Overrides, flags: MaterializeFlags | None = None) -> int:
    """Expand and write."""
    resolved = settle(flags, overrides)
    tell_beside(resolved)
    config = resolved.config
    would = flags is not None and flags.dry_run
    rows = trio.run(expand_rows if would else write_rows, config)
    for note in rows.notes:
        say.err(f"note: {note}")
    place = materialized_path(config.output.path)
    told = f"{'Would materialize' if would else 'Materialized'} {several(rows.rows, 'row')}: {place}"
    if config.display.json:
        say.out(as_json(Written(rows=rows.rows, materialized=str(place), notes=rows.notes)).decode())
        say.err(told)
    else:
        say.out(told)
    return 0


async def expand_rows(config: Config) -> Materialized:
    """Expand the input, and change nothing."""
    output_lockable(config.output.path).look()
    with tempfile.TemporaryDirectory(prefix="triocollect-") as folder:
        draft, rows = draft_of(config, await _routing(config), Path(folder) / "rows.jsonl")
        draft.discard()
    return rows


async def _routing(config: Config) -> Routing | None:
    return None if config.servers.head_server is None else await routing_of(config)


async def write_rows(config: Config) -> Materialized:
    """Expand the input into its file, under the lock that a collector holds while it does the same.

    Raises LockedError, and WouldOverwriteError where results belong to other rows.
    """
    locked = await lock_output(
        config.output.path,
        wait_s=config.output.wait_for_lock_s,
        warn=lambda text: say.err(f"note: {text}"),
    )
    try:
        return _write_rows(
            config, await _routing(config), has_results=os.fstat(locked.descriptor).st_size > 0
        )
    finally:
        locked.give_back()


def _write_rows(config: Config, routing: Routing | None, *, has_results: bool) -> Materialized:
    place = materialized_path(config.output.path)
    draft, rows = draft_of(config, routing, place)
    try:
        if has_results and not config.output.overwrite:
            _need_same_rows(config.output.path, place, rows)
        draft.commit()
    finally:
        draft.discard()
    return rows


def _need_same_rows(output: Path, place: Path, rows: Materialized) -> None:
    if sha256_of(place) != rows.sha256:
        raise WouldOverwriteError(
            f"{output} has results of other rows; give another --output, or --overwrite"
        )
