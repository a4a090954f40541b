"""A prompt template: the messages of a row made from its fields (as Gym 0.7.0 does it)."""

from pathlib import Path
from typing import Final

import yaml

from triocollect.config.regular import read_regular
from triocollect.errors import ConfigError, UsageError
from triocollect.protocol.values import Json, JsonObject
from triocollect.rows.source import locate


class Prompt:
    """`user` and perhaps `system`: texts with `{field}` for a row's top-level fields; `{{` is a brace."""

    def __init__(self, user: str, system: str | None = None) -> None:
        self._texts: Final = [("user", user)] if system is None else [("system", system), ("user", user)]

    def fill(self, row: JsonObject) -> None:
        """Set `responses_create_params.input`. Raises UsageError where one is there, or a field is not."""
        params = row.get("responses_create_params")
        kept = params if isinstance(params, dict) else {}
        if kept.get("input"):
            raise UsageError(
                "the row has its own responses_create_params.input, and prompt_config is given too; "
                "they are mutually exclusive, use one or the other"
            )
        messages: list[Json] = [
            {"role": role, "content": self._filled(text, row)} for role, text in self._texts
        ]
        row["responses_create_params"] = kept | {"input": messages}

    def _filled(self, text: str, row: JsonObject) -> str:
        try:
            return text.format_map(row)
        except KeyError as error:
            raise UsageError(
                f"the prompt refers to field {error}, and the row has only {list(row)}"
            ) from None
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise UsageError(f"the prompt cannot be filled from the row: {error}") from None


def load_prompt(path: Path) -> Prompt:
    """Read a prompt file: YAML with `user` and perhaps `system`. Raises ConfigError."""
    found = locate(path)
    try:
        content = yaml.safe_load(read_regular(found))
    except OSError as error:
        raise ConfigError(f"prompt_config: cannot read {found}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"prompt_config: {found} is not YAML: {error}") from None
    match content:
        case {"user": str(user), **rest} if isinstance(system := rest.get("system"), str | None):
            return Prompt(user, system)
    raise ConfigError(f"prompt_config: {found} must have a text `user`, and may have a text `system`")
