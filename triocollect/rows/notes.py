"""What is said about the rows before they are sent: Gym's lines, in words that keep its key phrases. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from triocollect.config.settings import InputConfig
from triocollect.rows.expand import Expansion
from triocollect.rows.skills import Skills
from triocollect.rows.source import Source

_NAMED: Final = 20  # overridden agents that are named


def notes_of(
    settings: InputConfig, skills: Skills | None, source: Source, expansion: Expansion
) -> Iterator[str]:
    """Once all rows were seen: first what was asked for, then what was found in the data."""
    yield from _asked_for(settings)
    if skills is not None:
        yield (
            f"Using skills from {skills.path} "
            f"(hash={skills.digest}, {len(skills.described)} skill(s): {skills.names})"
        )
    if settings.interleave_repeats:
        yield "Interleaving repeats (in a pattern of aabbcc to abcabc)"
    yield from _found(source, expansion)


def _asked_for(settings: InputConfig) -> Iterator[str]:
    if settings.limit:
        yield f"Limiting the number of rows to {settings.limit}"
    if settings.prompt_config is not None:
        yield f"Using prompt config: {settings.prompt_config}"
    if settings.num_repeats_add_seed:
        yield (
            "Adding unique `seed` values to each input via metadata.extra_body "
            "(only honored by vLLM model servers)"
        )
    if settings.agent_map:
        yield f"Routing rows via agent_map {dict(settings.agent_map)}"
    if settings.responses_create_params:
        yield f"Overriding responses_create_params fields with {dict(settings.responses_create_params)}"
    if isinstance(settings.num_repeats, Mapping):
        yield f"Per-agent num_repeats: {dict(settings.num_repeats)}"
    else:
        yield f"Repeating rows {settings.num_repeats} times (in a pattern of abc to aabbcc)"


def _found(source: Source, expansion: Expansion) -> Iterator[str]:
    if source.had_byte_order_mark:
        yield f"{source.path} begins with a byte order mark, which was skipped"
    if source.blank_lines:
        yield f"{source.path} has {source.blank_lines} blank line(s), which were skipped"
    if expansion.ways.overridden:
        pairs = sorted(expansion.ways.overridden)
        more = f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
        yield f"agent_map overrode agent_ref values already present in the data: {pairs[:_NAMED]}{more}"
    if unused := expansion.ways.repeats.unused:
        yield f"num_repeats names agents that never appeared in input rows (a typo?): {unused}"
