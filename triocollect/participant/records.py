"""One participant's files in the checkpoints below a root: records, then the manifest that vouches for them.

    <directory of the checkpoint>/participants/<kind>/<instance>/records-<sha256>.jsonl, manifest.json

Everything here blocks: it is called in a thread, or where nobody minds.
"""

import hashlib
import os
import stat
import threading
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar, final

import msgspec

from triocollect import durable
from triocollect.errors import DamageError, StorageError
from triocollect.participant.decode import directory_fault
from triocollect.protocol.encoding import encode_file
from triocollect.protocol.manifests import (
    LOCK,
    MOST_LOCK_BYTES,
    MOST_MANIFEST_BYTES,
    MOST_RECORDS_BYTES,
    Manifest,
    Record,
    RecordsRef,
)
from triocollect.protocol.messages import Kind, ManifestRef
from triocollect.protocol.values import NOT_JSON

R = TypeVar("R", bound=Record)

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_MANIFEST: Final = "manifest.json"


@final
class Publication:
    """The point of no return between the thread that writes and the loop that may give up.

    One of two happens first: `begin`, from where on the files get their names, or `stop`.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._begun = False
        self.stopped = False

    def begin(self) -> bool:
        """Whether the files may get their names."""
        with self._lock:
            self._begun = not self.stopped
            return self._begun

    def stop(self) -> None:
        """Nothing is published from now on, unless that has begun."""
        with self._lock:
            self.stopped = not self._begun


@final
class Shelf:
    """Where one participant's records stand. `root` is the checkpoint directory as this process sees it."""

    def __init__(self, root: Path, kind: Kind, instance: str, boot: str) -> None:
        self.root: Final = root
        self.kind: Final[Kind] = kind
        self.instance: Final = instance
        self.boot: Final = boot

    def write(
        self, checkpoint_id: str, directory: str, records: Sequence[Record], publication: Publication
    ) -> ManifestRef | None:
        """Put the records and their manifest there, durably. None: stopped before anything got its name.

        The same bytes again are fine. Raises StorageError, also when another manifest stands there already.
        """
        place = self._place(directory)
        self._make(place)
        written = self._write_records(self.root / place, records, publication)
        if written is None:
            return None
        manifest = encode_file(
            Manifest(
                kind=self.kind,
                instance=self.instance,
                boot=self.boot,
                checkpoint_id=checkpoint_id,
                records=written,
            )
        )
        self._create(place / _MANIFEST, manifest)
        return ManifestRef((place / _MANIFEST).as_posix(), hashlib.sha256(manifest).hexdigest(), len(records))

    def read(self, checkpoint_id: str, directory: str, manifest_sha256: str, record_type: type[R]) -> list[R]:
        """The records that the manifest of this digest vouches for, all of them checked.

        Raises DamageError for anything that is not as it was written, StorageError for what cannot be read.
        """
        place = self._place(directory)
        data = self._read(place / _MANIFEST, MOST_MANIFEST_BYTES)
        self._check_digest(place / _MANIFEST, data, manifest_sha256)
        manifest = _decoded(place / _MANIFEST, data, Manifest)
        ours = (self.kind, self.instance, checkpoint_id)
        if (manifest.kind, manifest.instance, manifest.checkpoint_id) != ours:
            raise DamageError(f"{place / _MANIFEST} is not that of {'/'.join(ours)}")
        if PurePosixPath(manifest.records.path).name != manifest.records.path:
            raise DamageError(f"{place / _MANIFEST} names records elsewhere: {manifest.records.path!r}")
        return self._read_records(place / manifest.records.path, manifest.records, record_type)

    def lock_sha256(self) -> str | None:
        """Which collector's lock file stands at the root; None where none can be read."""
        try:
            return hashlib.sha256(durable.read_at_most(self.root / LOCK, MOST_LOCK_BYTES)).hexdigest()
        except OSError:
            return None

    # -- writing --------------------------------------------------------------------------------------------

    def _make(self, place: PurePosixPath) -> None:
        if not self.root.is_dir():
            raise StorageError(
                f"{self.root} is not there: this server has to see the checkpoint directory",
                path=str(self.root),
            )
        for folder in reversed((place, *place.parents[:-1])):
            durable.have_folder(self.root / folder, mode=FOLDER_MODE)

    @staticmethod
    def _write_records(
        folder: Path, records: Sequence[Record], publication: Publication
    ) -> RecordsRef | None:
        draft = durable.Draft(folder / "records.jsonl", mode=FILE_MODE)
        try:
            digest = hashlib.sha256()
            for record in records:
                if publication.stopped:
                    break
                line = msgspec.json.encode(record) + b"\n"
                digest.update(line)
                draft.write(line)
            draft.sync()
            if not publication.begin():
                return None
            name = f"records-{digest.hexdigest()}.jsonl"
            draft.commit(name)
            return RecordsRef(name, digest.hexdigest(), len(records))
        finally:
            draft.discard()

    def _create(self, file: PurePosixPath, data: bytes) -> None:
        path = self.root / file
        if not path.exists():
            durable.replace(path, data, mode=FILE_MODE)
        elif self._read(file, MOST_MANIFEST_BYTES) != data:
            raise StorageError(
                f"{path} is there already, with other bytes: is another server called {self.instance!r}?",
                path=str(path),
            )

    # -- reading --------------------------------------------------------------------------------------------

    def _read_records(self, file: PurePosixPath, written: RecordsRef, record_type: type[R]) -> list[R]:
        data = self._read(file, MOST_RECORDS_BYTES)
        self._check_digest(file, data, written.sha256)
        records = [_decoded(file, line, record_type) for line in data.split(b"\n") if line]
        if len(records) != written.record_count:
            raise DamageError(f"{file} has {len(records)} records, its manifest says {written.record_count}")
        for record in records:
            if record.kind != self.kind:
                raise DamageError(f"{file} has a record of kind {record.kind!r}")
        return records

    def _read(self, file: PurePosixPath, most: int) -> bytes:
        path = self.root / file
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as opened:
                found = os.fstat(opened.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise DamageError(f"{file} is no file")
                if found.st_size > most:
                    raise DamageError(f"{file} has {found.st_size} bytes, which is more than {most}")
                return opened.read(most + 1)
        except OSError as error:
            raise durable.unreadable(path, error) from error

    @staticmethod
    def _check_digest(file: PurePosixPath, data: bytes, sha256: str) -> None:
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DamageError(f"{file} is not what was written: its digest differs")

    # -- places ---------------------------------------------------------------------------------------------

    def _place(self, directory: str) -> PurePosixPath:
        if (fault := directory_fault(directory)) is not None:
            raise StorageError(fault, path=directory)
        place = PurePosixPath(directory) / "participants" / self.kind / self.instance
        try:
            links = [folder for folder in (place, *place.parents[:-1]) if (self.root / folder).is_symlink()]
        except OSError as error:  # a longer name than there can be, say
            raise durable.unreadable(self.root / place, error) from error
        if links:
            raise DamageError(f"{links[0]} is a symbolic link, which may lead anywhere")
        return place


_D = TypeVar("_D", bound=msgspec.Struct)


def _decoded(file: PurePosixPath, data: bytes, kind: type[_D]) -> _D:
    try:
        return msgspec.json.decode(data, type=kind)
    except NOT_JSON as error:
        raise DamageError(f"{file} cannot be understood: {error}") from error
