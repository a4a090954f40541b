"""`triocollect run --dry-run`: everything up to the first row that would be sent, and not one change."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import trio
from attrs import frozen

from triocollect.cli import say
from triocollect.collector.drafting import draft_of, go_on
from triocollect.collector.earlier import Files, continues
from triocollect.collector.resume import Survey, max_rollout_attempts
from triocollect.collector.whereto import is_embedded, look_up
from triocollect.config.load import Resolved
from triocollect.config.settings import Config
from triocollect.config.table import SETTINGS
from triocollect.deployment.provisions import read_api_key, require_servers
from triocollect.gym.routing import Routing
from triocollect.records.output import scan_output
from triocollect.records.sidecar import scan_sidecar
from triocollect.records.tail import is_whole_object, read_tail
from triocollect.report.wording import rows as rows_in_words
from triocollect.rows.materialize import Materialized, read_rows
from triocollect.transport import Client


@frozen
class _Prospect:
    """What a run would begin with. `expanded` are its rows."""

    config: Config
    files: Files
    resumed: bool
    routing: Routing
    expanded: Path
    rows: Materialized
    survey: Survey

    def sent(self) -> Counter[tuple[str, str | None, str | None]]:
        """How many rows would be sent to which (address, environment server, agent)."""
        left = self.survey.left(read_rows(self.expanded))
        targets = ((self.routing.target(row), row.agent) for row in left)
        return Counter((target.url, target.server, agent) for target, agent in targets)


def dry_run(resolved: Resolved) -> int:
    """Say the settings with their origins, and how many rows would go where.

    The head server is asked, the input read and expanded, the files of an earlier run are read: which rows
    are done, and whether they are of the same run. Refuses what `run` would refuse for any of that. Starts no
    server, sends no row, takes no lock, and so does not see another collector on the same output. Writes to
    a temporary folder only.
    """
    tell = say.err if resolved.config.display.json else say.out
    with tempfile.TemporaryDirectory(prefix="triocollect-") as folder:
        prospect = _look_ahead(resolved.config, Path(folder))
        tell("\n".join([*_settings(resolved), *_outlook(prospect)]))
    return 0


def _look_ahead(config: Config, folder: Path) -> _Prospect:
    """The steps of setting out in their order, those that change something left out."""
    routing = trio.run(routing_of, config)
    files, expanded = Files(config.output.path), folder / "rows.jsonl"
    resumed = continues(config.output, files)
    draft, rows = draft_of(config, routing, expanded)
    try:
        routing.check(rows.routes)
        if resumed:
            go_on(config, files, draft, rows, warn=lambda text: say.err(f"note: {text}"))
        draft.commit()
    finally:
        draft.discard()
    survey = _survey(config, files if resumed else Files(folder / "nothing.jsonl"), folder)
    survey.look_over(lambda: read_rows(expanded), rows.rows)
    if is_embedded(config) and rows.rows:
        require_servers()
        read_api_key(config.servers.model_api_key_file)
    return _Prospect(config, files, resumed, routing, expanded, rows, survey)


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


def _settings(resolved: Resolved) -> Iterator[str]:
    yield "Settings:"
    for setting in SETTINGS:
        section: object = getattr(resolved.config, setting.home[0])
        if setting.home == setting.home[:2] and hasattr(section, setting.home[1]):
            value: object = getattr(section, setting.home[1])
            places = ", ".join(resolved.origins.get(setting.name, ("default",)))
            yield f"  {setting.name} = {_said(value)}  ({places})"


def _said(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_said(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (tuple, frozenset, list)):
        return "[" + ", ".join(map(_said, value)) + "]"
    return str(value)


def _outlook(prospect: _Prospect) -> Iterator[str]:
    config, survey = prospect.config, prospect.survey
    yield from (f"note: {note}" for note in prospect.rows.notes)
    if prospect.resumed:
        yield (
            f"Would continue the earlier run: {rows_in_words(survey.done_expected)} done, "
            f"{survey.terminal + survey.exhausted} not to be tried again."
        )
    elif found := prospect.files.with_rows():
        yield f"Would delete what an earlier run left in {' and '.join(map(str, found))}."
    sent = prospect.sent()
    yield f"Would send {rows_in_words(sent.total())}, {config.dispatch.concurrency} at a time:"
    for (url, server, agent), count in sent.items():
        place = "the embedded deployment" if is_embedded(config) else f"{url}/run"
        names = [
            f"{kind} {name}" for kind, name in (("environment server", server), ("agent", agent)) if name
        ]
        yield f"  {count} to {place}" + (f" ({', '.join(names)})" if names else "")
    yield f"Would write {config.output.path}. Nothing was sent, nothing was changed."
