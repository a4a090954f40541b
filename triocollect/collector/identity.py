"""Whether two runs are one: a digest for each setting that can change a result. Pure.

Host names, credentials, concurrency and timeouts cannot change what a row is, so they are left out.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from triocollect.config.settings import Config
from triocollect.protocol.files import RunFile

GYM_NUMBERING: Final = " (gym_task_numbering)"
_SHOWN: Final = 200  # characters


def field_digests(
    config: Config, *, input_sha256: str, servers: Iterable[str], prompt: bytes, skills: bytes
) -> dict[str, str]:
    """Hex sha256 per setting that can change a result (DriftField, less where checkpoints are).

    `servers` are the environment servers that rows name, `prompt` the bytes of the prompt config, `skills`
    what identifies the skills; a path alone does not say what is in a file.
    """
    rows, routing = config.input, config.routing
    return {
        "input": input_digest(input_sha256, gym=rows.gym_task_numbering),
        "limit": _digest(rows.limit or 0),
        "num_repeats": _digest(_plain(rows.num_repeats), rows.num_repeats_add_seed),
        "agent": _digest(_plain(rows.agent_map), {k: list(v) for k, v in sorted(rows.fan_out.items())}),
        "responses_create_params": _digest(_plain(rows.responses_create_params)),
        "prompt_config": _digest(prompt, skills),
        "model": _digest(config.servers.model),
        "environment": _digest(
            routing.mode,
            routing.environment_server_name,
            _plain(routing.environment_server_routes),
            sorted(servers),
        ),
    }


def input_digest(sha256: str, *, gym: bool) -> str:
    """That of the input, by what `TaskNumbers.of_all` says of its lines."""
    return _digest(sha256, gym)


def values_of(config: Config, source: Path) -> dict[str, str]:
    """The same settings in words, each on a line: what a file holds is not among them, where it is, is.

    `source`: the input, absolute.
    """
    rows, routing = config.input, config.routing
    values = {
        "input": f"{source}{GYM_NUMBERING if rows.gym_task_numbering else ''}",
        "limit": _shown(rows.limit),
        "num_repeats": _shown(rows.num_repeats, rows.num_repeats_add_seed and "num_repeats_add_seed"),
        "agent": _shown(rows.agent_map, {name: list(agents) for name, agents in rows.fan_out.items()}),
        "responses_create_params": _shown(rows.responses_create_params),
        "prompt_config": _shown(*(str(path) for path in (rows.prompt_config, rows.skills_path) if path)),
        "model": _shown(config.servers.model),
        "environment": _shown(
            routing.mode, routing.environment_server_name, routing.environment_server_routes
        ),
    }
    # Paths are bytes, and need not be text; and all of it is for people.
    return {
        name: value if value.isprintable() else "".join(one if one.isprintable() else "?" for one in value)
        for name, value in values.items()
    }


def _shown(*parts: object) -> str:
    said = (
        part if isinstance(part, str) else msgspec.json.encode(_plain(part)).decode()
        for part in parts
        if part
    )
    text = ", ".join(said) or "none"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def drifted(earlier: RunFile, now: Mapping[str, str]) -> tuple[str, ...]:
    """The fields that differ, in order. A field the earlier run did not know does not count."""
    return tuple(name for name in now if earlier.fields.get(name, now[name]) != now[name])


def _digest(*parts: object) -> str:
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value
