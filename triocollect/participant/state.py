"""States as JSON that gives back exactly what was put in. Pure.

A state holds None, bool, int, float, str, list, and dict with str keys; all else is refused rather than
turned into something similar. NaN and infinities become `{"$float":"nan"|"inf"|"-inf"}`; a dict whose one
key begins with `$` becomes `{"$dict":[[key,value]…]}`. Integers keep all digits, dicts their keys' order.
"""

import json
import math
from typing import Final

import msgspec

from triocollect.errors import StateError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.values import Json, JsonObject

_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode_state(episode: EpisodeId, state: object) -> msgspec.Raw:
    """The `state` of a record. Raises StateError, naming the episode and the place that cannot be kept."""
    try:
        text = json.dumps(_kept(state, "state"), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise StateError(f"the state of {episode.capture_key} cannot be kept: {reason}") from error
    return msgspec.Raw(text.encode())


def decode_state(state: msgspec.Raw) -> Json:
    """What `encode_state` was given. Raises StateError for what it never writes."""
    try:
        return _given(json.loads(bytes(state)))
    except (ValueError, RecursionError) as error:
        raise StateError(f"no state of a record: {error}") from error


def _kept(value: object, place: str) -> object:
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if isinstance(value, str) and kind is str:
        if not _is_text(value):
            raise ValueError(f"{place} is text that UTF-8 cannot hold")
        return value
    if isinstance(value, float) and kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list) and kind is list:
        return [_kept(item, f"{place}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict) and kind is dict:
        return _kept_dict(value, place)
    raise ValueError(f"{place} is a {kind.__qualname__}")


def _kept_dict(value: dict[object, object], place: str) -> object:
    pairs = []
    for key, item in value.items():
        if type(key) is not str:
            raise ValueError(f"{place} has the key {key!r}, a {type(key).__qualname__}")
        if not _is_text(key):
            raise ValueError(f"{place} has a key that UTF-8 cannot hold")
        pairs.append((key, _kept(item, f"{place}.{key}")))
    if len(pairs) == 1 and pairs[0][0].startswith("$"):
        return {"$dict": pairs}
    return dict(pairs)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _given(value: Json) -> Json:
    if isinstance(value, list):
        return [_given(item) for item in value]
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith("$"):
            return _unescaped(value)
        return {key: _given(item) for key, item in value.items()}
    return value


def _unescaped(value: JsonObject) -> Json:
    match value:
        case {"$float": str(name)} if name in _NOT_FINITE:
            return _NOT_FINITE[name]
        case {"$dict": list(pairs)}:
            return {key: _given(item) for key, item in map(_pair, pairs)}
        case _:
            raise ValueError(f"{value!r} is no escape of ours")


def _pair(value: Json) -> tuple[str, Json]:
    match value:
        case [str(key), item]:
            return key, item
        case _:
            raise ValueError(f"{value!r} is no pair of a key and a value")
