"""Strict readings of single values, for `judge` to hand to cattrs. Every fault is a ValueError, in words."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from triocollect.config import kinds, words
from triocollect.config.settings import LARGEST_REPLY_BYTES, ParticipantKind
from triocollect.protocol.values import Json

T = TypeVar("T")
_LAST_PORT: Final = 65535
_HTTP: Final = 80
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
Hook: TypeAlias = Callable[[object, object], object]


class UnfitError(ValueError):
    """A value is not what its setting needs."""


class PartsError(ValueError):
    """Problems of single parts of a map: (key, what is wrong)."""

    def __init__(self, *parts: tuple[str, str]) -> None:
        super().__init__(parts)
        self.parts = parts


def exactly(wanted: type[T], name: str, finish: Callable[[T], object] = lambda value: value) -> Hook:
    """A hook that takes values of exactly this type."""

    def hook(value: object, _: object) -> object:
        if type(value) is not wanted:
            raise UnfitError(f"needs {name}, not {words.shown(value)}")
        return finish(value)

    return hook


def from_text(read: Callable[[str], object]) -> Hook:
    """A hook that reads text."""
    return exactly(str, "text", read)


def no_map(text: str) -> object:
    """What text that is no `{…}` comes to where a map is needed."""
    raise UnfitError(f"needs a map such as {{a: b}}, not {words.shown(text)}")


def number_or(read_text: Callable[[str], object], finish: Callable[[float], object]) -> Hook:
    """A hook for files: a number is one, text must have a unit."""

    def hook(value: object, _: object) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return finish(value)
        if isinstance(value, str):
            return read_text(value)
        return read_text(words.shown(value))

    return hook


def some(text: str) -> str:
    if not text.strip():
        raise UnfitError("is empty")
    return text


def path(value: object, _: object) -> Path:
    if not isinstance(value, str | Path):
        raise UnfitError(f"needs a path as text, not {words.shown(value)}")
    if "\0" in some(str(value)):
        raise UnfitError("holds a zero byte, as no path can")
    return Path(str(value))


def choice(value: object, kind: object) -> str:
    allowed = kinds.choices(kind)
    if not isinstance(value, str) or value not in allowed:
        raise UnfitError(f"needs one of {', '.join(allowed)}; not {words.shown(value)}")
    return value


def repetition(number: int) -> int:
    return words.within(number, least=1, most=kinds.MOST_REPEATS)


def reply_size(number: float) -> int:
    if isinstance(number, float):
        raise UnfitError(f"needs a whole number of bytes, not {words.shown(number)}")
    return words.within(number, least=1, most=LARGEST_REPLY_BYTES)


def participant(text: object) -> kinds.Participant:
    """`KIND=URL`."""
    kind, equals, address = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not equals:
        raise UnfitError(f"needs KIND=URL such as environment=http://127.0.0.1:8000, not {words.shown(text)}")
    return kinds.Participant(cast("ParticipantKind", choice(kind, ParticipantKind)), url(address))


def peer(text: object, _: object) -> kinds.Peer:
    """`NAME=URL`; a head tells of servers as host and port only."""
    name, equals, address = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not (equals and _NAME.fullmatch(name)):
        raise UnfitError(f"needs NAME=URL such as dice=http://127.0.0.1:8000, not {words.shown(text)}")
    parts = urlsplit(url(address))
    if parts.scheme != "http" or parts.path:
        raise UnfitError(f"{name}: servers are at http://HOST:PORT here, without a path, not {address}")
    return kinds.Peer(name, parts.hostname or "", parts.port or _HTTP)


def url(text: str) -> kinds.Url:
    return kinds.Url(words.base_url(some(text)))


def head_url(value: object, _: object) -> str:
    """A URL, or what Gym says of its head server: `{host, port}`, each with Gym 0.7.0's default."""
    if isinstance(value, str):
        return url(value)
    if not isinstance(value, Mapping) or not {"host", "port"}.issuperset(value):
        raise UnfitError(f"needs a URL, or a map of host and port, not {words.shown(value)}")
    host = value.get("host", kinds.GYM_HEAD_HOST)
    port = value.get("port", kinds.GYM_HEAD_PORT)
    if not isinstance(host, str):
        raise PartsError(("host", f"needs a host name, not {words.shown(host)}"))
    if type(port) is not int or not 0 < port <= _LAST_PORT:
        raise PartsError(("port", f"needs a port number, not {words.shown(port)}"))
    return url(f"http://{host}:{port}")


def parameters(value: object, _: object) -> dict[str, Json]:
    """Fields of responses_create_params; the three that have flags are checked, the others pass."""
    if not isinstance(value, Mapping):
        raise UnfitError(f"needs a map, not {words.shown(value)}")
    faults = [
        (name, f"needs {wanted}, not {words.shown(value[name])}")
        for name, (fits, wanted) in _KNOWN_PARAMETERS.items()
        if value.get(name) is not None and not fits(value[name])
    ]
    if faults:
        raise PartsError(*faults)
    return {key: json_value(part) for key, part in value.items()}


def _number(value: object) -> float:
    """NaN, which no comparison accepts, for what is no number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


_KNOWN_PARAMETERS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "temperature": (lambda value: 0 <= _number(value) < math.inf, "a number of at least 0"),
    "top_p": (lambda value: 0 <= _number(value) <= 1, "a number from 0 to 1"),
    "max_output_tokens": (lambda value: type(value) is int and value > 0, "a whole number above 0"),
}


def json_value(value: object) -> Json:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: json_value(part) for key, part in value.items()}
    raise UnfitError(f"holds what JSON cannot say: {words.shown(value)}")


def need_list(value: object) -> None:
    """Raises for what only looks like a list: cattrs would walk through text letter by letter."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise UnfitError(f"needs a list, not {words.shown(value)}")


def need_map(value: object) -> None:
    """Raises for what is not a map with text as keys."""
    if not isinstance(value, Mapping):
        raise UnfitError(f"needs a map, not {words.shown(value)}")
    if odd := [key for key in value if not isinstance(key, str)]:
        raise UnfitError(f"needs text as keys, not {words.shown(odd[0])}")
