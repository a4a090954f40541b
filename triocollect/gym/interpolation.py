"""Resolves the `${…}` that a head server passes on unresolved. Pure; the environment is given."""

import re
from collections.abc import Mapping
from typing import Final

from triocollect.config.words import shown
from triocollect.errors import ConfigError
from triocollect.protocol.values import Json, JsonObject

_INNERMOST: Final = re.compile(r"\$\{([^${}]*)\}")
_MOST_STEPS: Final = 64  # a value that needs more refers to itself
_LONGEST: Final = 1 << 16  # characters of an address or a name, its interpolations replaced
_MISSING: Final = "???"  # OmegaConf's mark for "somebody has to fill this in"


def resolve(value: Json, tree: JsonObject, environ: Mapping[str, str]) -> Json:
    """`value` with its interpolations replaced: `${key}`, `${a.b}` and `${oc.env:VAR,default}`, nested too.

    Raises ConfigError, one line, for what cannot be resolved; it quotes `value` or a part of it as it is
    written, and nothing that stands behind an interpolation, which may be a secret.
    """
    resolved = _bounded(value)
    for _ in range(_MOST_STEPS):
        if not isinstance(resolved, str) or (found := _INNERMOST.search(resolved)) is None:
            return resolved
        try:
            meaning = _meaning(found[1].strip(), tree, environ)
            text = "" if found[0] == resolved else _as_text(meaning, found[0])
        except ConfigError:
            if resolved is value:
                raise
            raise ConfigError(f"{shown(value)} cannot be resolved") from None
        if found[0] != resolved:
            meaning = f"{resolved[: found.start()]}{text}{resolved[found.end() :]}"
        resolved = _bounded(meaning)
    raise ConfigError(f"{shown(value)} refers to itself")


def _bounded(value: Json) -> Json:
    if isinstance(value, str) and len(value) > _LONGEST:
        raise ConfigError(f"a text of more than {_LONGEST} characters is no address and no name")
    return value


def _meaning(expression: str, tree: JsonObject, environ: Mapping[str, str]) -> Json:
    resolver, colon, argument = expression.partition(":")
    if not colon:
        return _lookup(expression, tree)
    if resolver != "oc.env":
        raise ConfigError(f"${{{expression}}}: only ${{key}} and ${{oc.env:NAME,default}} can be resolved")
    name, comma, default = argument.partition(",")
    if (found := environ.get(name.strip())) is not None:
        return found
    if not comma:
        raise ConfigError(f"${{{expression}}}: the environment variable {name.strip()} is not set")
    default = default.strip()
    if default == "null":
        return None
    quoted = len(default) > 1 and default[0] == default[-1] and default[0] in "'\""
    return default[1:-1] if quoted else default


def _lookup(path: str, tree: JsonObject) -> Json:
    place: Json = tree
    for step in path.split("."):
        if not isinstance(place, dict) or step not in place:
            raise ConfigError(f"${{{path}}}: the config has no such key")
        place = place[step]
    if place == _MISSING:
        raise ConfigError(f"${{{path}}}: the config leaves this key open ({_MISSING})")
    return place


def _as_text(meaning: Json, expression: str) -> str:
    if isinstance(meaning, dict | list) or meaning is None:
        raise ConfigError(f"{expression} is not a text or a number")
    return str(meaning)
