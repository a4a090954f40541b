"""What bytes say, by rules of its own: lines end at a newline, JSON is what Python's own reader takes.

Of the package it knows the Structs of files alone. `sure` is what nobody can doubt; where two readers may
differ (nested deeper than a collector writes, half a surrogate pair, a name twice) a line may count or not.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import msgspec
from attrs import define, field

from triocollect.protocol.manifests import (
    Collection,
    Dispatched,
    DispatchHeader,
    Latest,
    Manifest,
    ParticipantRef,
)

NEVER_NESTED: Final = 512  # a collector writes nothing deeper
_ONCE: Final = (b'"_ng_task_index"', b'"_ng_rollout_index"', b'"run"', b'"rows"')
_INDICES: Final = 1 << 32
_ATTEMPTS: Final = 10**9

Key = tuple[int, int]


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole lines, and what stands behind the last newline."""
    *lines, tail = data.split(b"\n")
    return lines, tail


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) < 4300 else digits


class Read(NamedTuple):
    """One text as JSON. `value`: None where it is none; `sure`: whether every reader has to agree."""

    value: object
    sure: bool = True
    is_json: bool = True


def read(line: bytes) -> Read:
    """Judge one line."""
    try:
        value = json.loads(line.decode(), parse_constant=_no_constant, parse_int=_integer)
    except RecursionError:
        return Read(None, sure=False, is_json=False)
    except ValueError:
        return Read(None, is_json=False)
    deep = line.count(b"[") + line.count(b"{") > NEVER_NESTED
    half = b"\\ud" in line.lower() and _is_half(value)
    return Read(value, sure=not (deep or half or any(line.count(name) > 1 for name in _ONCE)))


def _is_half(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


class Row(NamedTuple):
    """A record: whose, and whether it is a failure. `failure_class`: as JSON says it."""

    key: Key
    attempt: int
    is_failure: bool
    failure_class: object


def row(value: object) -> Row | None:
    """A JSON value as a record; None for what is none."""
    if not isinstance(value, dict):
        return None
    key = value.get("_ng_task_index"), value.get("_ng_rollout_index")
    if not all(type(one) is int and 0 <= one < _INDICES for one in key):
        return None
    attempt = value.get("_ng_attempt_index")
    known = type(attempt) is int and 0 <= attempt < _ATTEMPTS
    failure_class, error = value.get("_ng_failure_class"), value.get("error")
    has_result = "reward" in value or "response" in value
    return Row(
        key,
        attempt if known else 0,
        failure_class is not None or (error is not None and not has_result),
        failure_class,
    )


@define
class Results:
    """An output. `done` rows surely are; `may` be done; `used`: attempts surely used, by row."""

    done: set[Key] = field(factory=set)
    may: set[Key] = field(factory=set)
    used: dict[Key, int] = field(factory=dict)
    damaged: int = 0


def results(data: bytes) -> Results:
    """Of an output's whole lines."""
    found = Results()
    for line in split(data)[0]:
        text = read(line)
        one = row(text.value)
        if one is None:
            found.damaged += text.sure and bool(line.strip(b" \t\r\n\x0b\x0c"))
            continue
        if text.sure:
            found.used[one.key] = max(one.attempt, found.used.get(one.key, 0))
        if not one.is_failure:
            found.may.add(one.key)
            if text.sure:
                found.done.add(one.key)
    return found


@define
class Failures:
    """A sidecar, by row: how many lines surely, and the highest attempts of those."""

    lines: Counter[Key] = field(factory=Counter)
    most: Counter[Key] = field(factory=Counter)  # those included that nobody is sure of
    used: dict[Key, int] = field(factory=dict)
    replied: dict[Key, int] = field(factory=dict)


def failures(data: bytes) -> Failures:
    """Of a sidecar's whole lines."""
    found = Failures()
    for line in split(data)[0]:
        text = read(line)
        one = row(text.value)
        if one is None:
            continue
        found.most[one.key] += 1
        if text.sure:
            found.lines[one.key] += 1
            found.used[one.key] = max(one.attempt, found.used.get(one.key, 0))
            if one.failure_class != "agent_request_failed":
                found.replied[one.key] = max(one.attempt, found.replied.get(one.key, 0))
    return found


def is_object(text: bytes) -> bool | None:
    """Whether these bytes are one JSON object; None where nobody can be sure."""
    found = read(text)
    return isinstance(found.value, dict) if found.sure else None


class Log(NamedTuple):
    """A dispatch log. `used`: the highest attempt of each rollout that a whole line names."""

    header: DispatchHeader | None
    used: dict[str, int]
    answered: dict[str, int]
    damaged: bool


def log(data: bytes) -> Log:
    """Of the whole lines, and of a whole object behind the last newline: it may have been sent."""
    lines, tail = split(data)
    header = _as(lines[0], DispatchHeader) if lines else None
    used: dict[str, int] = {}
    answered: dict[str, int] = {}
    damaged = bool(lines) and header is None
    for line in [*lines[1:], tail]:
        one = _as(line, Dispatched)
        if one is None:
            damaged = damaged or line is not tail
            continue
        for known in (used, answered) if one.answered else (used,):
            known[one.rollout_id] = max(one.attempt, known.get(one.rollout_id, -1))
    return Log(header, used, answered, damaged)


def _as(data: bytes, kind):
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def number_of(folder: str) -> int | None:
    """The sequence number in the name of a checkpoint's folder; None of a name that is not one."""
    found = re.fullmatch(r"ckpt-(\d{6,})", folder, re.ASCII)
    return None if found is None else int(found[1])


def latest(root: Path) -> Latest | None:
    """What LATEST says; None where it says nothing."""
    path = root / "LATEST"
    found = _as(path.read_bytes(), Latest) if path.is_file() else None
    return found if found is not None and 0 <= found.sequence < 10**12 else None


def fault_of_chain(folder: Path, named: Latest | None) -> str | None:
    """Where digests do not lead from LATEST, or from the collection, to every byte; None where they do."""
    return next(_chain_faults(folder, named), None)


def _chain_faults(folder: Path, named: Latest | None) -> Iterator[str]:
    data = (folder / "collection.json").read_bytes()
    if named is not None and not _is_nearly(named.sha256, _sha256(data)):
        yield "collection.json has another digest than LATEST says"
    collection = _as(data, Collection)
    if collection is None:
        yield "collection.json cannot be read"
        return
    if named is not None and collection.checkpoint_id != named.checkpoint_id:
        yield "it is another checkpoint than LATEST says"
    episodes = [*collection.continued, *collection.restarted]
    if len({one.rollout_id for one in episodes}) < len(episodes) or any(one.attempt < 0 for one in episodes):
        yield "an episode twice, or one that cannot be"
    for ref in collection.participants:
        yield from _part_faults(folder, ref)


def _part_faults(folder: Path, ref: ParticipantRef) -> Iterator[str]:
    place = PurePosixPath(ref.manifest)
    if _leads_out(place):
        yield f"{place} leads out of the folder"
        return
    text = (folder / place).read_bytes()
    manifest = _as(text, Manifest)
    if _sha256(text) != ref.sha256 or manifest is None:
        yield f"{place} has another digest"
        return
    below = place.parent / manifest.records.path
    if _leads_out(below):
        yield f"{below} leads out of the folder"
        return
    records = (folder / below).read_bytes()
    if _sha256(records) != manifest.records.sha256:
        yield f"{below} has another digest"
    if not len(split(records)[0]) == manifest.records.record_count == ref.record_count:
        yield f"{below} has another number of records"


def _leads_out(place: PurePosixPath) -> bool:
    return place.is_absolute() or ".." in place.parts


def _is_nearly(written: str, digest: str) -> bool:
    """Four digits may be damaged: the digest of other bytes would differ nearly everywhere."""
    return len(written) == len(digest) and sum(a != b for a, b in zip(written, digest, strict=True)) <= 4


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def as_collection(data: bytes) -> Collection | None:
    """What a collection.json says."""
    return _as(data, Collection)
