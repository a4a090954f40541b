"""`triocollect run --dry-run`: everything up to the first row that would be sent, and not one change."""

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import trio
from attrs import frozen

from triocollect.checkpoint.directory import lockable
from triocollect.cli import say
from triocollect.cli.prospect import Destination, Prospect, in_flight_of, settings_of
from triocollect.collector.drafting import draft_of, go_on
from triocollect.collector.earlier import Files, continues, read_run_file
from triocollect.collector.last_directory import id_of, owned
from triocollect.collector.lock import lockable as output_lockable
from triocollect.collector.resume import Survey, max_rollout_attempts
from triocollect.collector.whereto import is_embedded, look_up
from triocollect.config.load import Resolved
from triocollect.config.settings import Config
from triocollect.deployment.provisions import read_api_key, require_servers
from triocollect.gym.routing import Routing
from triocollect.reading.places import Place
from triocollect.reading.restart import Restart, restart_of
from triocollect.reading.run_status import owns
from triocollect.records.output import scan_output
from triocollect.records.sidecar import scan_sidecar
from triocollect.records.tail import is_whole_object, read_tail
from triocollect.report.machine import as_json
from triocollect.rows.materialize import Materialized, read_rows
from triocollect.transport import Client


@frozen
class _Outset:
    """What a run would begin with. `expanded` are its rows."""

    config: Config
    files: Files
    resumed: bool
    routing: Routing
    expanded: Path
    rows: Materialized
    survey: Survey

    def destinations(self) -> tuple[Destination, ...]:
        """How many rows would be sent where."""
        left = self.survey.left(read_rows(self.expanded))
        targets = ((self.routing.target(row), row.agent) for row in left)
        sent = Counter((target.url, target.server, agent) for target, agent in targets)
        embedded = is_embedded(self.config)
        return tuple(
            Destination(rows=count, url=None if embedded else url, environment_server=server, agent=agent)
            for (url, server, agent), count in sent.items()
        )

    def continues(self) -> Restart | None:
        """What of the rows that were in flight would go on; None where no checkpoint can tell."""
        checkpoint = self.config.checkpoint
        if checkpoint is None or not self.resumed or not checkpoint.dir.is_dir():
            return None
        place = Place(self.files.output, checkpoint.dir)
        return restart_of(self.files.output, checkpoint.dir, owns=owns(place))


def dry_run(resolved: Resolved) -> int:
    """Say the settings with their origins, and how many rows would go where.

    The head server is asked, the input read and expanded, the files of an earlier run are read: which rows
    are done, and whether they are of the same run. Refuses what `run` would refuse for any of that. Starts no
    server, sends no row, takes no lock, and so does not see another collector on the same output. Writes to
    a temporary folder only.
    """
    with tempfile.TemporaryDirectory(prefix="triocollect-") as folder:
        found = _prospect_of(resolved, _look_ahead(resolved.config, Path(folder)))
    if resolved.config.display.json:
        say.out(as_json(found).decode())
        say.err(found.text())
    else:
        say.out(found.text())
    return 0


def _prospect_of(resolved: Resolved, outset: _Outset) -> Prospect:
    config, survey, rows = resolved.config, outset.survey, outset.rows
    nothing = () if rows.rows else (f"the input has no rows: {config.input.path}",)
    deleted = () if outset.resumed else tuple(map(str, outset.files.with_rows()))
    return Prospect(
        output=str(config.output.path),
        expected=survey.expected,
        done=survey.done_expected,
        given_up=survey.terminal + survey.exhausted,
        resumed=outset.resumed,
        deletes=deleted,
        concurrency=config.dispatch.concurrency,
        destinations=outset.destinations(),
        in_flight=in_flight_of(outset.continues()),
        settings=settings_of(resolved),
        notes=(*rows.notes, *nothing),
    )


def _look_ahead(config: Config, folder: Path) -> _Outset:
    """The steps of setting out in their order, those that change something left out."""
    output_lockable(config.output.path).look()
    if config.checkpoint is not None:
        lockable(config.checkpoint.dir).look()
    routing = trio.run(routing_of, config)
    files, expanded = Files(config.output.path), folder / "rows.jsonl"
    resumed = continues(config.output, files)
    draft, rows = draft_of(config, routing, expanded)
    try:
        routing.check(rows.routes)
        if resumed:
            go_on(config, files, draft, rows, warn=lambda text: say.err(f"note: {text}"))
            _check_directory(config, files)
        draft.commit()
    finally:
        draft.discard()
    survey = _survey(config, files if resumed else Files(folder / "nothing.jsonl"), folder)
    survey.look_over(lambda: read_rows(expanded), rows.rows)
    if is_embedded(config) and rows.rows:
        require_servers()
        read_api_key(config.servers.model_api_key_file)
    return _Outset(config, files, resumed, routing, expanded, rows, survey)


def _check_directory(config: Config, files: Files) -> None:
    used = None if config.checkpoint is None else id_of(config.checkpoint.dir)
    accepted = "checkpoint_dir" in config.output.accept_drift
    if (told := owned(read_run_file(files.run)[0], files, used, accepted=accepted).told) is not None:
        say.err(f"note: {told}")


def _survey(config: Config, files: Files, folder: Path) -> Survey:
    attempts, fault = max_rollout_attempts(os.environ.get("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"))
    if fault is not None:
        say.err(f"note: {fault}")
    return Survey(
        scan_output(_mended(files.output, folder)),
        scan_sidecar(
            _mended(files.failures, folder),
            retry_terminal_timeouts=config.output.retry_terminal_timeouts,
        ),
        attempts,
    )


def _mended(path: Path, folder: Path) -> Path:
    """The file, or where its last line lacks only its newline, a copy with what a run would add."""
    if not (tail := read_tail(path)) or not is_whole_object(tail):
        return path
    copy = folder / path.name
    shutil.copyfile(path, copy)
    with copy.open("ab") as end:
        end.write(b"\n")
    return copy


async def routing_of(config: Config) -> Routing:
    """Who gets which row; asks the head server where one is named."""
    transport = Client(connect_timeout_s=config.dispatch.connect_timeout_s)
    try:
        return await look_up(config, transport)
    finally:
        await transport.aclose()
