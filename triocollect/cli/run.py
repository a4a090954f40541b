"""`triocollect run`."""

import sys
from typing import TextIO

import trio

from triocollect import dispositions
from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.faults import tell
from triocollect.cli.flags import Flags, Overrides, settle, tell_beside
from triocollect.config.load import Resolved
from triocollect.config.settings import Config
from triocollect.errors import Exit, StoppedError
from triocollect.report.machine import as_json
from triocollect.report.run_report import Report

ABOUT = """Every setting can also be an environment variable (TRIOCOLLECT_CONCURRENCY=8), a line of a settings
file (--config), or one of Gym's own overrides (+limit=5, ++num_samples_in_parallel=8), which take the rest of
Gym's fields too: agent_map, fan_out, environment_routing_mode and so on.
The command line wins over the environment, the environment over the file. Times: 90, 90s, 15m, 2h.
Sizes: 1000000, 256MiB, 2GB."""
EPILOGUE = """Examples:
  triocollect run -i rows.jsonl -o out.jsonl
  triocollect run -i rows.jsonl -o out.jsonl --limit 5 --dry-run
  triocollect run -i rows.jsonl -o out.jsonl --environment-url http://host:8000
  triocollect run --config run.toml --head-server http://host:11000 -r 4 -c 64
  triocollect run -i rows.jsonl -o out.jsonl '+agent_map={a: b}' +limit=5

Exit codes:
  0    every row is a success, or a failure written beside the results
  1    internal error
  2    usage or bad input; nothing was sent
  3    --require-complete and a row is no success, or not one row succeeded
  4    refused: drift, lock, damage, nothing to resume, would overwrite
  75   rows are left, not tried or cut: run the same command again
  130  interrupted"""

app = command("run", "[FLAGS] [+key=value …]", ABOUT, EPILOGUE)


@app.default
def run(*overrides: Overrides, flags: Flags | None = None) -> int:
    """Collect, or say what would be collected."""
    resolved = settle(flags, overrides)
    dry_run = flags is not None and bool(flags.dry_run)
    if dry_run or resolved.config.checkpoint is None:
        dispositions.give_back()
    tell_beside(resolved)
    if dry_run:
        from triocollect.cli import dry_run as dry  # noqa: PLC0415  # each way loads its own

        return dry.dry_run(resolved)
    return collect(resolved)


def collect(resolved: Resolved) -> int:
    """Run to the end, and say how it ended."""
    from triocollect.report.final import render  # noqa: PLC0415  # not before the run is over

    checkpoint = resolved.config.checkpoint
    report = trio.run(_collect, resolved.config)
    dispositions.let_through()  # a Ctrl-C ends a report that nobody reads
    if isinstance(report, StoppedError):
        code = tell(report)
        return checkpoint.preempt_exit_code if checkpoint is not None and code is Exit.LEFT else code
    if resolved.config.display.json:
        say.out(as_json(report).decode())
        say.err(render(report))
    else:
        say.out(render(report))
    if report.ending == "preempted" and checkpoint is not None:
        return checkpoint.preempt_exit_code
    return report.exit_code


async def _collect(config: Config) -> Report | StoppedError:
    """The run inside its display: the display outlives the last event."""
    from triocollect.collector import door  # noqa: PLC0415  # what a dry run does not load
    from triocollect.report.progress import (  # noqa: PLC0415  # what a dry run does not load
        Progress,
        warnings_as_notes,
    )

    stream: TextIO | None = sys.stderr  # None where the process was started with it closed
    progress = Progress(config.display.progress, stream)
    report: Report | StoppedError
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(progress.run)
            try:
                with warnings_as_notes(config.display.progress, progress.listen):
                    report = await door.collect(config, listener=progress.listen, signals=True)
            except StoppedError as told:
                report = told
            nursery.cancel_scope.cancel()
    finally:
        progress.close()
    return report
