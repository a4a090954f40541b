"""From an input file to the materialised file: one line per row, the very bytes that are sent."""

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.durable import Draft, open_file
from triocollect.errors import ConfigError, DamageError, InputError, UsageError
from triocollect.protocol.values import NOT_JSON
from triocollect.rows.codec import decode_object
from triocollect.rows.expand import Expansion
from triocollect.rows.layout import InOrder, Interleaved, Layout
from triocollect.rows.notes import notes_of
from triocollect.rows.problems import Problems, RowPlace
from triocollect.rows.prompt import load_prompt
from triocollect.rows.skills import load_skills
from triocollect.rows.source import MAX_LINE_BYTES, READ_BYTES, Source
from triocollect.rows.types import Route, Row, parse_row
from triocollect.rows.ways import AgentOf, Agents


class Materialized(msgspec.Struct, frozen=True):
    """What a materialised file holds."""

    rows: int
    sha256: str  # hex, of the file's bytes
    input_sha256: str  # hex, over the digests of the input's lines: blank ones and line endings do not count
    routes: dict[Route, int]  # how many rows go there
    notes: tuple[str, ...]  # what the user should be told


def draft_rows(
    settings: InputConfig,
    routing: RoutingConfig,
    destination: Path,
    *,
    agent_of_source: Callable[[str], str] | None,
    agent_of_server: AgentOf | None = None,
) -> tuple[Draft, Materialized]:
    """Read, check and expand the whole input; write the rows to a draft beside `destination`.

    Nothing is to be seen at `destination` until the draft is committed. `agent_of_source` names the agent of
    rows that have only a task_source, and raises ConfigError where it cannot; `agent_of_server` that of rows
    which go to an environment server by its name, None where it has no single one. Without them such rows
    keep no agent. The memory holds a digest and two counters per task, and nothing of the rows.

    Raises InputError and ConfigError with everything that is wrong, StorageError when the draft cannot be
    written; then there is no draft.
    """
    prompt = None if settings.prompt_config is None else load_prompt(settings.prompt_config)
    skills = None if settings.skills_path is None else load_skills(settings.skills_path)
    expansion = Expansion(
        settings,
        routing,
        Agents(agent_of_source, agent_of_server),
        prompt=prompt,
        skills_ref=None if skills is None else skills.reference,
    )
    source = Source(settings.path)
    draft = Draft(destination)
    try:
        with contextlib.closing(_layout(draft, interleaved=settings.interleave_repeats)) as layout:
            _write(source, expansion, layout, settings.limit)
            digest = layout.finish()
    except BaseException:
        draft.discard()
        raise
    routes = expansion.ways.routes
    return draft, Materialized(
        rows=sum(routes.values()),
        sha256=digest,
        input_sha256=expansion.tasks.of_all,
        routes=routes,
        notes=tuple(notes_of(settings, skills, source, expansion)),
    )


def _layout(draft: Draft, *, interleaved: bool) -> Layout:
    return Interleaved(draft) if interleaved else InOrder(draft)


def _write(source: Source, expansion: Expansion, layout: Layout, limit: int | None) -> None:
    path = str(source.path)
    problems, refusals = Problems(path), Problems(path)
    digest_of, expand, add = expansion.tasks.digest, expansion.expand, layout.add
    for number, text in enumerate(source.lines()):
        digest = digest_of(text)
        if limit and number >= limit:
            continue  # read on: what the whole input is does not depend on the limit
        try:
            row = decode_object(text)
        except UsageError as fault:
            raise InputError(str(fault), path=path, line=source.line, offset=source.offset) from None
        try:
            expand(row, source.line, digest, add)
        except UsageError as fault:
            kept = refusals if isinstance(fault, ConfigError) else problems
            kept.add(str(fault), RowPlace(source.line, source.offset, number))
            if kept.full:
                break
    problems.raise_any()
    if clashes := list(expansion.ids.clashes(expansion.rollouts)):
        raise InputError("\n".join(clashes), path=path)
    if told := refusals.told():
        raise ConfigError(*(f"{path}: {sentence}" for sentence in told))


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a materialised file, one after the other.

    Raises DamageError, naming line and byte, for a line that is not a materialised row or was cut short.
    """
    number, offset = 1, 0
    try:
        with io.BufferedReader(open_file(path), READ_BYTES) as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                yield _row(line, path, number, offset)
                number, offset = number + 1, offset + len(line)
    except OSError as error:
        raise DamageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _row(line: bytes, path: Path, number: int, offset: int) -> Row:
    if not line.endswith(b"\n"):
        raise DamageError(f"{path}, line {number} (byte {offset}): cut short; the file was not written whole")
    try:
        return parse_row(line[:-1])
    except NOT_JSON:
        raise DamageError(f"{path}, line {number} (byte {offset}): not a materialised row") from None
