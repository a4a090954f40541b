"""`triocollect run --dry-run`: everything up to the first row that would be sent."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import trio

from triocollect.cli import say
from triocollect.collector.whereto import is_embedded, look_up
from triocollect.config.load import Resolved
from triocollect.config.settings import Config
from triocollect.config.table import SETTINGS
from triocollect.gym.routing import Router, Routing
from triocollect.rows.materialize import Materialized, draft_rows, read_rows
from triocollect.transport import Transport


def dry_run(resolved: Resolved) -> int:
    """Say the settings with their origins, and how many rows would go where. Raises what `run` would."""
    config = resolved.config
    tell = say.err if config.display.json else say.out
    routing = trio.run(routing_of, config)
    with tempfile.TemporaryDirectory(prefix="triocollect-") as folder:
        expanded = Path(folder) / "rows.jsonl"
        router = routing if isinstance(routing, Router) else None
        draft, rows = draft_rows(
            config.input,
            config.routing,
            expanded,
            agent_of_source=None if router is None else router.agent_of_source,
            agent_of_server=None if router is None else router.agent_of_server,
        )
        draft.commit()
        routing.check(rows.routes)
        lines = [*_settings(resolved), *_destinations(config, rows, routing, expanded)]
    tell("\n".join(lines))
    return 0


async def routing_of(config: Config) -> Routing:
    """Who gets which row; asks the head server where one is named."""
    transport = Transport(connect_timeout_s=config.dispatch.connect_timeout_s)
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


def _destinations(config: Config, rows: Materialized, routing: Routing, expanded: Path) -> Iterator[str]:
    yield from (f"note: {note}" for note in rows.notes)
    yield f"Would send {rows.rows} rows, {config.dispatch.concurrency} at a time:"
    counts = Counter((routing.target(row), row.agent) for row in read_rows(expanded))
    for (target, agent), count in counts.items():
        place = "the embedded deployment" if is_embedded(config) else f"{target.url}/run"
        names = [
            f"{kind} {name}"
            for kind, name in (("environment server", target.server), ("agent", agent))
            if name
        ]
        yield f"  {count} to {place}" + (f" ({', '.join(names)})" if names else "")
    yield f"Would write {config.output.path}. Nothing was sent, nothing was changed."
