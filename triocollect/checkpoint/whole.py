"""Whether a checkpoint is whole: every file that it leads to is there and is what it was."""

import contextlib
import hashlib
from collections.abc import Iterator
from operator import ne
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

import msgspec
from attrs import frozen

from triocollect.checkpoint.names import COLLECTION, is_folder, sequence_of
from triocollect.durable import open_file, read_at_most
from triocollect.errors import DamageError
from triocollect.protocol.ids import rollout_id_fault
from triocollect.protocol.manifests import (
    MOST_COLLECTION_BYTES,
    MOST_MANIFEST_BYTES,
    MOST_RECORDS_BYTES,
    Collection,
    Latest,
    Manifest,
    ParticipantRef,
    RecordsRef,
)
from triocollect.protocol.values import NOT_JSON

_SCHEMA: Final = 1
_MOST_WRONG_DIGITS: Final = 4  # of 64; by chance so few differ once in 10**70
_READ_BYTES: Final = 1 << 20
_T = TypeVar("_T", Collection, Manifest)


@frozen
class Whole:
    """A checkpoint that can be restored from. `bytes` are those of all records.

    `damaged_digest`: a few digits of the digest in LATEST are not as they were written.
    """

    folder: Path
    collection: Collection
    bytes: int
    damaged_digest: bool = False


def read_whole(folder: Path, *, named: Latest | None = None, hash_records: bool = True) -> Whole:
    """Read a checkpoint and check every file it leads to; with `named`, also that LATEST means this one.

    Without `hash_records` the records' bytes are not looked at, which takes no time. Raises DamageError for
    anything that is not as it was written; may take as long as reading all records.
    """
    with _damage_in(folder):
        if not is_folder(folder):
            raise DamageError(f"{folder.name} is not there")
        data = _read(folder, COLLECTION, MOST_COLLECTION_BYTES)
    digest = _sha256(data)
    if named is not None and not _is_nearly(named.sha256, digest):
        raise DamageError(f"{folder.name}/{COLLECTION} is not the one that LATEST names: other bytes")
    collection = _decode(data, Collection, f"{folder.name}/{COLLECTION}")
    if named is not None and collection.checkpoint_id != named.checkpoint_id:
        raise DamageError(f"LATEST names {named.checkpoint_id}, the folder is {collection.checkpoint_id}")
    size = check_parts(folder, collection, hash_records=hash_records)
    return Whole(folder, collection, size, named is not None and digest != named.sha256)


def _is_nearly(written: str, digest: str) -> bool:
    """Whether it was that digest before a few of its digits were damaged: other bytes change nearly all."""
    return len(written) == len(digest) and sum(map(ne, written, digest)) <= _MOST_WRONG_DIGITS


def check_parts(folder: Path, collection: Collection, *, hash_records: bool) -> int:
    """Check that `collection` makes sense there and what the participants wrote; the bytes of all records.

    Raises DamageError.
    """
    _check_collection(folder, collection)
    with _damage_in(folder):
        return sum(
            _participant_bytes(folder, ref, collection.checkpoint_id, hash_records=hash_records)
            for ref in collection.participants
        )


def folders_to(folder: Path, collection: Collection) -> Iterator[Path]:
    """The folders between a checkpoint's and its manifests, innermost first, each once."""
    found = set[Path]()
    for ref in collection.participants:
        found.update(_inside(folder, ref.manifest).relative_to(folder).parents)
    for relative in sorted(found, key=lambda path: len(path.parts), reverse=True):
        yield folder / relative


def _check_collection(folder: Path, collection: Collection) -> None:
    where = f"{folder.name}/{COLLECTION}"
    if collection.schema != _SCHEMA:
        raise DamageError(f"{where} has schema {collection.schema}; this version reads {_SCHEMA}")
    if collection.sequence != sequence_of(folder.name):
        raise DamageError(f"{where} says it is number {collection.sequence}")
    rollouts = set[str]()
    for episode in (*collection.continued, *collection.restarted):
        if episode.attempt < 0 or rollout_id_fault(episode.rollout_id) is not None:
            raise DamageError(f"{where} names an episode that cannot be: {episode.capture_key!r}")
        if episode.rollout_id in rollouts:
            raise DamageError(f"{where} names {episode.rollout_id} twice")
        rollouts.add(episode.rollout_id)
    participants = {(ref.kind, ref.instance) for ref in collection.participants}
    if len(participants) != len(collection.participants):
        raise DamageError(f"{where} names a participant twice")


def _participant_bytes(folder: Path, ref: ParticipantRef, checkpoint_id: str, *, hash_records: bool) -> int:
    data = _read(folder, ref.manifest, MOST_MANIFEST_BYTES)
    where = f"{folder.name}/{ref.manifest}"
    if _sha256(data) != ref.sha256:
        raise DamageError(f"{where}: other bytes than when {ref.kind} {ref.instance} wrote it")
    manifest = _decode(data, Manifest, where)
    if manifest.schema != _SCHEMA:
        raise DamageError(f"{where} has schema {manifest.schema}; this version reads {_SCHEMA}")
    said = (manifest.kind, manifest.instance, manifest.checkpoint_id, manifest.records.record_count)
    if said != (ref.kind, ref.instance, checkpoint_id, ref.record_count):
        raise DamageError(f"{where} is not what {COLLECTION} says of {ref.kind} {ref.instance}")
    beside = str(PurePosixPath(ref.manifest).parent)
    return _records_bytes(folder, beside, manifest.records, hash_records=hash_records)


def _records_bytes(folder: Path, beside: str, records: RecordsRef, *, hash_records: bool) -> int:
    """`records.path` is relative to the manifest's own folder and names its content."""
    path = _inside(folder, f"{beside}/{records.path}" if beside != "." else records.path)
    where = f"{folder.name}/{path.relative_to(folder)}"
    if not path.name.endswith(f"records-{records.sha256}.jsonl"):
        raise DamageError(f"{where} is not named by its digest")
    if not path.is_file():
        raise DamageError(f"{where} is not there")
    size = path.stat().st_size
    if size > MOST_RECORDS_BYTES:
        raise DamageError(f"{where} has {size} bytes, which is more than {MOST_RECORDS_BYTES}")
    if (size == 0) != (records.record_count == 0):
        raise DamageError(f"{where} has {size} bytes for {records.record_count} records")
    if hash_records and _digest_and_lines(path) != (records.sha256, records.record_count):
        raise DamageError(f"{where} is damaged: other bytes than when it was written")
    return size


def _digest_and_lines(path: Path) -> tuple[str, int]:
    digest, lines = hashlib.sha256(), 0
    with open_file(path) as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
            lines += chunk.count(b"\n")
    return digest.hexdigest(), lines


def _read(folder: Path, relative: str, most: int) -> bytes:
    path = _inside(folder, relative)
    if not path.is_file():
        raise DamageError(f"{folder.name}/{relative} is not there")
    return read_at_most(path, most)


@contextlib.contextmanager
def _damage_in(folder: Path) -> Iterator[None]:
    """What cannot be read is as good as not there."""
    try:
        yield
    except OSError as error:
        raise DamageError(f"{folder.name} cannot be read: {error}") from error


def _inside(folder: Path, relative: str) -> Path:
    """The file of that name below the folder. Raises DamageError for a way out of it, links included."""
    parts = relative.split("/")
    if not all(parts) or {".", ".."} & set(parts) or "\0" in relative:
        raise DamageError(f"{folder.name} leads to {relative!r}, which is no path inside it")
    path = folder
    for part in parts:
        path /= part
        if path.is_symlink():
            raise DamageError(f"{folder.name} leads to {relative!r}, which is a link")
    return path


def _decode(data: bytes, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except NOT_JSON as error:
        raise DamageError(f"{where} is damaged: {error}") from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
