"""Spans in the bytes of OTLP (opentelemetry/proto/trace/v1/trace.proto, protobuf's wire format). Pure.

Not by the library's own encoder: two spans a row go through this, and telemetry may cost little of a row
(`python -m tests.bench telemetry`). Nearly all of them differ in a few places only: a `Form` has the rest.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from triocollect.telemetry.ids import SPAN_BYTES
from triocollect.telemetry.made import ResourceAttributes, Sort, Span, SpanKind, Stand

Form: TypeAlias = Callable[[tuple[bytes, bytes], int, int, bytes], bytes]
"""Encodes a span of its kind: trace and span, when it began and ended, and what belongs into its hole."""

_KINDS: Final[Mapping[SpanKind, bytes]] = {"internal": b"\x01", "server": b"\x02", "client": b"\x03"}
_LOCAL: Final = b"\x85\x01" + (0x100).to_bytes(4, "little")  # it is known whose the parent is: ours
_REMOTE: Final = b"\x85\x01" + (0x300).to_bytes(4, "little")
_names: Final = struct.Struct("<2s16s2s8s").pack
_own: Final = struct.Struct("<2s16s2s8sBQBQ")
_UNSET: Final = b"\x7a\x00"
_MOST_KEPT: Final = 1024  # of each kind of what is kept encoded
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


def request(resource: ResourceAttributes, scope: tuple[str, str], spans: Sequence[bytes]) -> bytes:
    """An ExportTraceServiceRequest of encoded spans. `scope`: name and version of who made them."""
    name, version = (part.encode() for part in scope)
    of_scope = b"\x0a" + _sized(b"\x0a" + _sized(name) + b"\x12" + _sized(version))
    attributes = (b"\x0a" + _sized(_key(key) + _of_resource(value)) for key, value in resource.items())
    of_resource = b"\x0a" + _sized(b"".join(attributes))
    length = sum(map(len, spans))
    head = of_resource + b"\x12" + _size(len(of_scope) + length) + of_scope
    return b"".join((b"\x0a", _size(len(head) + length), head, *spans))


def encoded(span: Span) -> bytes:
    """A span as a part of its scope."""
    at, parent = span.at, span.parent
    parts = [
        _own.pack(b"\x0a\x10", at.trace, b"\x12\x08", at.span, 0x39, span.began, 0x41, span.ended),
        _common(span.sort),
        _UNSET if span.fault is None else _error(span.fault),
    ]
    if parent is None:
        parts.append(_LOCAL)
    else:
        parts += (_REMOTE if parent.remote else _LOCAL, b"\x22\x08", parent.span)
    for key, value in span.about.items():
        parts.append(_attribute(b"\x4a", key, value))
    parts.extend(map(_link, span.links))
    return b"\x12" + _sized(b"".join(parts))


@lru_cache(_MOST_KEPT)
def below(sort: Sort) -> Form:
    """A child of a span of this process, which says no more than its sort; the hole is its parent's name."""
    return _form(sort, b"\x22\x08", SPAN_BYTES, b"")


@lru_cache(_MOST_KEPT)
def saying(sort: Sort, key: str, length: int, links: tuple[Stand, ...]) -> Form:
    """The root of a trace; the hole is the one text that it has beside its sort, of so many bytes."""
    whole = _attribute(b"\x4a", key, "-" * length)
    return _form(sort, whole[: len(whole) - length], length, b"".join(map(_link, links)))


def _form(sort: Sort, before: bytes, hole: int, after: bytes) -> Form:
    middle = _common(sort) + _UNSET + _LOCAL + before
    head = b"\x12" + _size(_own.size + len(middle) + hole + len(after)) + b"\x0a\x10"
    pack = struct.Struct(f"<{len(head)}s16s2s8sBQBQ{len(middle)}s{hole}s{len(after)}s").pack

    def form(at: tuple[bytes, bytes], began: int, ended: int, filling: bytes) -> bytes:
        trace, span = at
        return pack(head, trace, b"\x12\x08", span, 0x39, began, 0x41, ended, middle, filling, after)

    return form


@lru_cache(_MOST_KEPT)
def _common(sort: Sort) -> bytes:
    attributes = [_attribute(b"\x4a", key, value) for key, value in sort.about.items()]
    named = b"\x2a" + _sized(sort.name.encode(errors="replace")) + b"\x30" + _KINDS[sort.kind]
    return named + b"".join(attributes)


def _of_resource(value: str | float | bool | Sequence[str | float | bool]) -> bytes:  # noqa: FBT001  # as below
    if isinstance(value, str | int | float):
        return _value(value)
    return _sized(b"\x2a" + _sized(b"".join(b"\x0a" + _value(one) for one in value)))


def _attribute(tag: bytes, name: str, value: str | float | bool) -> bytes:  # noqa: FBT001  # what it can be
    """A KeyValue under the tag of its field."""
    return tag + _sized(_key(name) + _value(value))


@lru_cache(_MOST_KEPT)
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


@lru_cache(_MOST_KEPT)  # thousands of rows are linked to one run
def _link(to: Stand) -> bytes:
    flags = (_REMOTE if to.remote else _LOCAL).removeprefix(b"\x85\x01")
    return b"\x6a" + _sized(_names(b"\x0a\x10", to.trace, b"\x12\x08", to.span) + b"\x35" + flags)


def _error(fault: str) -> bytes:
    return b"\x7a" + _sized(b"\x12" + _sized(fault.encode(errors="replace")) + b"\x18\x02")


def _sized(data: bytes) -> bytes:
    return _size(len(data)) + data


def _size(length: int) -> bytes:
    return _FEW[length] if length < len(_FEW) else _varint(length)
