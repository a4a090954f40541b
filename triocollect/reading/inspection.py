"""What checkpoints hold, in the order of their numbers. What `inspect` tells.

Sizes, numbers and positions; never what stands in a record, which users asked and models said.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from triocollect.checkpoint.ladder import read_latest
from triocollect.checkpoint.names import COLLECTION, LATEST, checkpoint_folders, folder_name
from triocollect.checkpoint.whole import read_whole
from triocollect.durable import read_at_most
from triocollect.errors import DamageError, StorageError, UsageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import (
    MOST_COLLECTION_BYTES,
    Collection,
    Latest,
    Manifest,
    ParticipantRef,
    Restarted,
)
from triocollect.protocol.values import NOT_JSON
from triocollect.reading.cuts import cuts_of
from triocollect.reading.run_status import age
from triocollect.report.verify import Cuts
from triocollect.report.wording import rows, several

_MOST_MANIFEST_BYTES: Final = 1 << 20


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one participant wrote. `records` is the file, below the checkpoint's folder; `bytes` its size."""

    kind: str
    instance: str
    record_count: int
    records: str | None = None
    bytes: int | None = None


class Inspected(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint. `standing`: what LATEST names, one below it, one above it (never published), or
    "unknown" where LATEST does not tell.

    `fault`: why it cannot be used; then nothing else of it may be known. `episodes` and `left_out` are
    listed where one checkpoint was asked for.
    """

    folder: str
    sequence: int
    standing: Literal["latest", "kept", "unpublished", "unknown"]
    checkpoint_id: str | None = None
    created: str | None = None  # UTC, ISO 8601
    epoch: int | None = None
    run: str | None = None
    continued: int = 0
    restarted: int = 0
    bytes: int | None = None
    participants: tuple[Part, ...] = ()
    records: dict[str, int] = {}  # by kind
    cuts: Cuts | msgspec.UnsetType = msgspec.UNSET
    episodes: tuple[EpisodeId, ...] | msgspec.UnsetType = msgspec.UNSET
    left_out: tuple[Restarted, ...] | msgspec.UnsetType = msgspec.UNSET
    fault: str | None = None

    @property
    def damaged(self) -> bool:
        """Whether it was whole once and is not now: what was never published may be half there."""
        return self.fault is not None and self.standing != "unpublished"

    def lines(self, now: datetime) -> Iterator[str]:
        """For people."""
        created = "" if self.created is None else f", {age(self.created, now)} old"
        yield f"  {self.folder}  {self.standing}  {self.checkpoint_id or 'no id'}{created}"
        if self.fault is not None:
            yield f"    {'damaged' if self.damaged else 'unfinished'}: {self.fault}"
        if self.checkpoint_id is None:
            return
        size = "" if self.bytes is None else f"; {several(self.bytes, 'byte')} of records"
        yield f"    {rows(self.continued)} continued, {self.restarted} left out{size}"
        if isinstance(self.cuts, Cuts):
            yield f"    {self.cuts.words()}"
        for part in self.participants:
            size = "" if part.bytes is None else f", {several(part.bytes, 'byte')}"
            yield f"    {part.kind} {part.instance}: {several(part.record_count, 'record')}{size}"
        for episode in self.episodes or ():
            yield f"    continues {episode.rollout_id}, attempt {episode.attempt}"
        for one in self.left_out or ():
            yield f"    leaves out {one.rollout_id}, attempt {one.attempt}: {one.reason}"


def inspect_all(root: Path) -> tuple[Inspected, ...]:
    """Every checkpoint of a directory, lowest number first. Raises StorageError where it cannot be listed."""
    latest = latest_of(root)
    return tuple(
        _inspected(sequence, folder, latest) for sequence, folder in checkpoint_folders(root).items()
    )


def inspect_one(root: Path, wanted: str) -> Inspected:
    """The one of this id, folder or number, with its episodes. Raises UsageError naming those there are."""
    there = inspect_all(root)
    for one in there:
        if wanted in {one.checkpoint_id, one.folder, str(one.sequence)}:
            collection, _ = read_collection(root / one.folder)
            if collection is None:
                return one
            return msgspec.structs.replace(one, episodes=collection.continued, left_out=collection.restarted)
    names = ", ".join(one.checkpoint_id or one.folder for one in there) or "none"
    raise UsageError(f"--checkpoint {wanted}: {root} does not hold it; it holds {names}")


def latest_of(root: Path) -> Latest | DamageError | StorageError | None:
    """What LATEST says, or why that cannot be read; None where there is none."""
    try:
        return read_latest(root)
    except (DamageError, StorageError) as error:
        return error


def fault_of_latest(root: Path) -> str | None:
    """What is wrong with LATEST itself: it cannot be read, or names what is not there."""
    latest = latest_of(root)
    if isinstance(latest, Exception):
        return f"{root / LATEST}: {latest}"
    if latest is not None and latest.sequence not in checkpoint_folders(root):
        return f"{root / LATEST} names {folder_name(latest.sequence)}, which is not there"
    return None


def read_collection(folder: Path) -> tuple[Collection | None, str | None]:
    """(What a folder's collection.json says, what is wrong with it)."""
    try:
        data = read_at_most(folder / COLLECTION, MOST_COLLECTION_BYTES)
        return msgspec.json.decode(data, type=Collection), None
    except OSError as error:
        return None, f"{folder.name}/{COLLECTION}: {error.strerror or error}"
    except NOT_JSON as error:
        return None, f"{folder.name}/{COLLECTION} is damaged: {error}"


def parts_of(folder: Path, participants: Sequence[ParticipantRef]) -> Iterator[Part]:
    """Of a whole checkpoint: each participant's records, where they lie and how large they are."""
    for ref in participants:
        manifest = msgspec.json.decode(
            read_at_most(folder / ref.manifest, _MOST_MANIFEST_BYTES), type=Manifest
        )
        records = Path(ref.manifest).parent / manifest.records.path
        yield Part(
            kind=ref.kind,
            instance=ref.instance,
            record_count=ref.record_count,
            records=str(records),
            bytes=(folder / records).stat().st_size,
        )


def _inspected(sequence: int, folder: Path, latest: Latest | Exception | None) -> Inspected:
    standing = _standing(sequence, latest)
    bare = Inspected(folder=folder.name, sequence=sequence, standing=standing)
    collection, fault = read_collection(folder)
    if collection is None:
        return msgspec.structs.replace(bare, fault=fault)
    parts = tuple(
        Part(kind=ref.kind, instance=ref.instance, record_count=ref.record_count)
        for ref in collection.participants
    )
    size = None
    try:
        named = latest if isinstance(latest, Latest) and standing == "latest" else None
        size = read_whole(folder, named=named, hash_records=False).bytes
        parts = tuple(parts_of(folder, collection.participants))
    except DamageError as damage:
        fault = str(damage)
    except (OSError, *NOT_JSON) as error:  # it went while it was looked at
        fault = f"{folder.name} cannot be read: {error}"
    by_kind = dict.fromkeys((part.kind for part in parts), 0)
    for part in parts:
        by_kind[part.kind] += part.record_count
    return msgspec.structs.replace(
        bare,
        checkpoint_id=collection.checkpoint_id,
        created=collection.created,
        epoch=collection.epoch,
        run=collection.run,
        continued=len(collection.continued),
        restarted=len(collection.restarted),
        bytes=size,
        participants=parts,
        records=by_kind,
        cuts=cuts_of(folder, collection),
        fault=fault,
    )


def _standing(
    sequence: int, latest: Latest | Exception | None
) -> Literal["latest", "kept", "unpublished", "unknown"]:
    if not isinstance(latest, Latest):
        return "unknown"
    if sequence == latest.sequence:
        return "latest"
    return "kept" if sequence < latest.sequence else "unpublished"
