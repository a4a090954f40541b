"""The rows that input, settings and routing give now, and whether an earlier run may go on with them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from triocollect.collector.agreement import adopt, agree
from triocollect.collector.earlier import Files, read_run_file
from triocollect.collector.identity import field_digests, values_of
from triocollect.config.settings import Config
from triocollect.durable import Draft, set_aside
from triocollect.gym.routing import Router, Routing
from triocollect.protocol.files import RunFile
from triocollect.rows.materialize import Materialized, draft_rows
from triocollect.rows.skills import load_skills
from triocollect.rows.source import locate


def draft_of(config: Config, routing: Routing | None, destination: Path) -> tuple[Draft, Materialized]:
    """The rows, drafted beside `destination`. Raises what `draft_rows` raises.

    `routing` fills agents in where it is one that knows them; None where the caller dispatches itself.
    """
    Files(config.output.path).keep_off(locate(config.input.path))
    router = routing if isinstance(routing, Router) else None
    return draft_rows(
        config.input,
        config.routing,
        destination,
        agent_of_source=None if router is None else router.agent_of_source,
        agent_of_server=None if router is None else router.agent_of_server,
    )


def source_of(config: Config) -> Path:
    """Where the input is, absolute."""
    return locate(config.input.path).absolute()


def go_on(
    config: Config, files: Files, draft: Draft, rows: Materialized, warn: Callable[[str], None]
) -> RunFile:
    """The run file with which these rows continue the earlier run; nothing is changed.

    Raises DriftError where they are other rows than those it began with.
    """
    fields = digests_of(config, rows)
    if (done := set_aside(files.run)) is not None:
        warn(done)
    earlier, fault = read_run_file(files.run)
    if fault is not None:
        warn(fault)
    accepted = frozenset[str](config.output.accept_drift)
    if earlier is None:
        draft.flush()
        return adopt(files.materialized, draft.draft_path, rows, fields, accepted)
    return agree(earlier, rows, fields, accepted, values_of(config, source_of(config)))


def digests_of(config: Config, rows: Materialized) -> dict[str, str]:
    """What identifies the run that these rows belong to, field by field."""
    skills = None if config.input.skills_path is None else load_skills(config.input.skills_path)
    return field_digests(
        config,
        input_sha256=rows.input_sha256,
        servers={route.server for route in rows.routes if route.server},
        prompt=_read(config.input.prompt_config),
        skills=b"" if skills is None else msgspec.json.encode(skills.reference),
    )


def _read(path: Path | None) -> bytes:
    with suppress(OSError):  # rows that need it have been made from it
        return b"" if path is None else path.read_bytes()
    return b""
