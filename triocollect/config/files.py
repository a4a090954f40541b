"""Reads a settings file: TOML, YAML or JSON, by its name. Keys given twice are refused in each of them."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

from triocollect.config.regular import read_regular
from triocollect.errors import ConfigError


def read_settings(path: Path) -> Mapping[str, object]:
    """The map that the file holds. Raises ConfigError naming the file, and the place in it where known."""
    if path.suffix not in _READERS:
        raise ConfigError(f"{path}: a settings file ends in .toml, .yaml, .yml or .json")
    try:
        values = _READERS[path.suffix](read_regular(path).decode("utf-8-sig"))
    except OSError as fault:
        raise ConfigError(f"{path}: cannot be read: {fault.strerror or fault}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deep") from None
    except ValueError as fault:
        raise ConfigError(f"{path}: {' '.join(str(fault).split())}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold a map of settings")
    return cast("Mapping[str, object]", values)


def _read_json(text: str) -> object:
    import json  # noqa: PLC0415  # each format is loaded by those who use it

    return json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_no_constant)


def _read_yaml(text: str) -> object:
    import yaml  # noqa: PLC0415  # each format is loaded by those who use it

    class Loader(yaml.SafeLoader):
        """Safe, and refuses a key that stands there twice."""

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> object:
        loader.flatten_mapping(node)
        return _without_doubles(
            [
                (loader.construct_object(key, deep=True), loader.construct_object(value, deep=True))
                for key, value in node.value
            ]
        )

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return cast("object", yaml.load(text, Loader))  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as fault:
        raise ValueError(str(fault)) from None


def _without_doubles(pairs: list[tuple[object, object]]) -> dict[object, object]:
    values: dict[object, object] = {}
    for key, value in pairs:
        try:
            if key in values:
                raise ValueError(f"the key {key!r} stands there twice")
        except TypeError:
            raise ValueError(f"{key!r} cannot be a key") from None
        values[key] = value
    return values


def _no_constant(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    ".toml": tomllib.loads,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".json": _read_json,
}
