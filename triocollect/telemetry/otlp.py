"""Spans in the bytes of OTLP (opentelemetry/proto/trace/v1/trace.proto, protobuf's wire format). Pure.

The library's own encoder takes seven times as long, which would be a tenth of what a row costs.
"""

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from triocollect.telemetry.made import Attributes, Span, SpanKind, Stand

_KINDS: Final[Mapping[SpanKind, bytes]] = {"internal": b"\x01", "server": b"\x02", "client": b"\x03"}
_LOCAL: Final = b"\x85\x01" + (0x100).to_bytes(4, "little")  # it is known whose the parent is: ours
_REMOTE: Final = b"\x85\x01" + (0x300).to_bytes(4, "little")
_names: Final = struct.Struct("<2s16s2s8s").pack
_times: Final = struct.Struct("<BQBQ").pack
_UNSET: Final = b"\x7a\x00"
_MOST_WORDS: Final = 1024  # names that are kept encoded
_SEVEN: Final = 0x7F
_WORD: Final = (1 << 64) - 1


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    found = bytearray()
    while number > _SEVEN:
        found.append(number & _SEVEN | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_FEW: Final = tuple(_varint(number) for number in range(1 << 9))  # nearly all numbers that are written
_MOST_TEXT: Final = _SEVEN - 2  # bytes of a text whose length, and that of what is around it, are a byte each


def request(resource: Attributes, scope: tuple[str, str], spans: Iterable[bytes]) -> bytes:
    """An ExportTraceServiceRequest of encoded spans. `scope`: name and version of who made them."""
    name, version = (part.encode() for part in scope)
    of_scope = b"\x0a" + _sized(b"\x0a" + _sized(name) + b"\x12" + _sized(version))
    attributes = b"".join([_attribute(b"\x0a", key, resource[key]) for key in resource])
    of_resource = b"\x0a" + _sized(attributes)
    return b"\x0a" + _sized(of_resource + b"\x12" + _sized(of_scope + b"".join(spans)))


def encoded(span: Span) -> bytes:
    """A span as a part of its scope."""
    name, at, parent, kind, began, ended, about, links, fault = span
    parts = [
        _names(b"\x0a\x10", at.trace, b"\x12\x08", at.span),
        _named(name, kind),
        _times(0x39, began, 0x41, ended),
        _UNSET if fault is None else _error(fault),
        _REMOTE if parent is not None and parent.remote else _LOCAL,
    ]
    if parent is not None:
        parts.append(b"\x22\x08" + parent.span)
    for key, value in about.items():
        known = not isinstance(value, float)  # for 0.0 equals -0.0
        parts.append((_known_attribute if known else _attribute)(b"\x4a", key, value))
    parts.extend(map(_link, links))
    return b"\x12" + _sized(b"".join(parts))


@lru_cache(_MOST_WORDS)
def _named(name: str, kind: SpanKind) -> bytes:
    return b"\x2a" + _sized(name.encode(errors="replace")) + b"\x30" + _KINDS[kind]


def _attribute(tag: bytes, name: str, value: str | float | bool) -> bytes:  # noqa: FBT001  # what it can be
    """A KeyValue under the tag of its field."""
    return tag + _sized(_key(name) + _value(value))


_known_attribute: Final = lru_cache(_MOST_WORDS, typed=True)(_attribute)


@lru_cache(_MOST_WORDS)
def _key(name: str) -> bytes:
    return b"\x0a" + _sized(name.encode(errors="replace")) + b"\x12"


def _value(value: str | float | bool) -> bytes:  # noqa: FBT001  # what an attribute can be
    if isinstance(value, str):
        text = value.encode(errors="replace")
        if (length := len(text)) <= _MOST_TEXT:
            return _FEW[length + 2] + b"\x0a" + _FEW[length] + text
        return _sized(b"\x0a" + _sized(text))
    if isinstance(value, bool):
        return b"\x02\x10\x01" if value else b"\x02\x10\x00"
    if isinstance(value, int):
        return _sized(b"\x18" + (_FEW[value] if 0 <= value < len(_FEW) else _varint(value & _WORD)))
    return b"\x09\x21" + struct.pack("<d", value)


@lru_cache(_MOST_WORDS)  # thousands of rows are linked to one run
def _link(to: Stand) -> bytes:
    flags = (_REMOTE if to.remote else _LOCAL).removeprefix(b"\x85\x01")
    return b"\x6a" + _sized(_names(b"\x0a\x10", to.trace, b"\x12\x08", to.span) + b"\x35" + flags)


def _error(fault: str) -> bytes:
    return b"\x7a" + _sized(b"\x12" + _sized(fault.encode(errors="replace")) + b"\x18\x02")


def _sized(data: bytes) -> bytes:
    length = len(data)
    return (_FEW[length] if length < len(_FEW) else _varint(length)) + data
