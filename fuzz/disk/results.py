"""What the bytes of a run's files say, read by nothing of the product but the types of its files."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from attrs import frozen

from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Collection, Dispatched, Latest, Manifest

DIRECTORY: Final = "checkpoints/"
Files = Mapping[str, bytes | None]  # by path, None for a folder


class Result(msgspec.Struct, frozen=True):
    """A line of output or sidecar."""

    task: int = msgspec.field(name="_ng_task_index")
    rollout: int = msgspec.field(name="_ng_rollout_index")
    attempt: int = msgspec.field(name="_ng_attempt_index", default=0)
    failure: str | None = msgspec.field(name="_ng_failure_class", default=None)

    @property
    def rollout_id(self) -> str:
        return f"{self.task}-{self.rollout}"

    @property
    def capture_key(self) -> str:
        return EpisodeId(self.rollout_id, self.attempt).capture_key


def results_in(data: bytes) -> Iterator[Result]:
    """Those of whole lines; a cut may have left zeros between them."""
    for line in data.split(b"\n")[:-1]:
        try:
            yield msgspec.json.decode(line, type=Result)
        except msgspec.MsgspecError:
            continue


def answered_in(data: bytes) -> Iterator[EpisodeId]:
    """The attempts of a dispatch log whose answer a server wanted nowhere written: they have ended, too."""
    for line in data.split(b"\n")[:-1]:
        try:
            said = msgspec.json.decode(line, type=Dispatched)
        except msgspec.MsgspecError:
            continue
        if said.answered:
            yield EpisodeId(said.rollout_id, said.attempt)


@frozen
class Named:
    """What LATEST leads to: a checkpoint, or what is wrong. No number: there is no LATEST."""

    sequence: int | None = None
    continued: frozenset[EpisodeId] = frozenset()
    fault: str | None = None


def named_in(files: Files) -> Named:
    """Every digest on the way is checked."""
    data = files.get(f"{DIRECTORY}LATEST")
    if data is None:
        return Named()
    try:
        latest = msgspec.json.decode(data, type=Latest)
        folder = f"{DIRECTORY}ckpt-{latest.sequence:06d}"
        collection = msgspec.json.decode(
            _meant(files, f"{folder}/collection.json", latest.sha256), type=Collection
        )
        for one in collection.participants:
            written = _meant(files, f"{folder}/{one.manifest}", one.sha256)
            records = msgspec.json.decode(written, type=Manifest).records
            beside = one.manifest.rpartition("/")[0]
            lines = _meant(files, f"{folder}/{beside}/{records.path}", records.sha256).count(b"\n")
            if not lines == records.record_count == one.record_count:
                return Named(fault=f"{one.manifest} counts {one.record_count} records and there are {lines}")
    except (msgspec.MsgspecError, LookupError) as error:
        return Named(fault=f"LATEST leads to something damaged: {error}")
    return Named(latest.sequence, frozenset(collection.continued))


def _meant(files: Files, path: str, sha256: str) -> bytes:
    data = files.get(path)
    if data is None:
        raise LookupError(f"{path} is not there")
    if hashlib.sha256(data).hexdigest() != sha256:
        raise LookupError(f"{path} has other bytes than its digest says")
    return data


def files_in(folder: Path) -> dict[str, bytes | None]:
    """All that is there."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }
