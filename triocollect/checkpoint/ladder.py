"""Which checkpoint a restart continues from: LATEST, else the newest other whole one, else none.

Every rung that was passed over is named with the reason. Nothing here fails a start: what cannot be read is
passed over. Reads every byte of the records, so it belongs in a thread.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from attrs import frozen
from msgspec import UNSET

from triocollect.checkpoint.names import COLLECTION, LATEST, checkpoint_folders, folder_name
from triocollect.checkpoint.whole import Whole, read_whole
from triocollect.durable import open_file, other_than_a_file, read_at_most, unreadable
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import MOST_COLLECTION_BYTES, Collection, Latest
from triocollect.protocol.values import NOT_JSON

_MOST_BYTES = 1 << 16
_NUMBERS = 10**12  # as many as a folder's name can have


@frozen
class Skipped:
    """What was not used, LATEST or a folder, and why not."""

    name: str
    why: str
    of_another: bool = False  # whole, and another output goes on from it

    def __str__(self) -> str:
        return f"{self.name} was passed over: {self.why}"


@frozen
class Rung:
    """Where the ladder ended. No checkpoint and nothing skipped: there was none."""

    checkpoint: Whole | None
    skipped: tuple[Skipped, ...] = ()

    @property
    def is_bottom(self) -> bool:
        """Whether there was no LATEST: no run here has ever taken a checkpoint."""
        return self.checkpoint is None and not self.skipped

    def words(self) -> list[str]:
        """Each that was passed over, and the step taken; nothing where LATEST named a whole one, or none.

        What another output goes on from is nothing that this one has lost.
        """
        skipped = [str(one) for one in self.skipped if not one.of_another]
        if not skipped:
            return []
        step = (
            "no checkpoint is left to go on from: rows that were under way start from their input"
            if self.checkpoint is None
            else f"rows go on from {self.checkpoint.folder.name}, the newest checkpoint that is whole"
        )
        return [*skipped, step]


def read_latest(root: Path) -> Latest | None:
    """What LATEST says; None where there is none. Raises DamageError, StorageError where it is unreadable."""
    path = root / LATEST
    if (what := other_than_a_file(path)) is not None:
        raise DamageError(f"it is {what}, not a file")
    try:
        with open_file(path) as file:
            data = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        latest = msgspec.json.decode(data, type=Latest)
    except NOT_JSON as error:
        what = "it is empty" if not data.strip(b"\0 \n") else f"it is damaged: {error}"
        raise DamageError(what) from error
    if not 0 <= latest.sequence < _NUMBERS:
        raise DamageError(f"it is damaged: it names number {latest.sequence}")
    return latest


def find_checkpoint(
    root: Path, *, input_sha256: str | None = None, output: str | None = None, hash_records: bool = True
) -> Rung:
    """Climb down from LATEST. Without LATEST there is no checkpoint, whatever folders lie about.

    Below a LATEST that can be read only lower numbers count: a folder above it was never published. With
    `input_sha256` a checkpoint of another input is passed over: its rollout ids mean other rows. With
    `output`, the run of one, so is what another output goes on from. Without `hash_records` the bytes of
    records are not looked at, which takes no time.
    """
    skipped: list[Skipped] = []
    latest = None
    try:
        latest = read_latest(root)
        if latest is None:
            return Rung(None)
    except (DamageError, StorageError) as damage:
        skipped.append(Skipped(LATEST, str(damage)))
    for folder in _rungs(root, latest):
        named = latest if latest is not None and folder.name == folder_name(latest.sequence) else None
        try:
            whole = read_whole(folder, named=named, hash_records=hash_records)
        except DamageError as damage:
            skipped.append(Skipped(folder.name, str(damage)))
            continue
        collection = whole.collection
        if output is not None and collection.output not in {UNSET, output}:
            skipped.append(Skipped(folder.name, "it holds rows of another output", of_another=True))
        elif input_sha256 not in {None, collection.input_sha256}:
            skipped.append(
                Skipped(folder.name, "it was taken of another input file, or of this one before it changed")
            )
        else:
            return Rung(whole, (*skipped, *_damaged_digest(whole)))
    return Rung(None, tuple(skipped))


def _damaged_digest(whole: Whole) -> Iterator[Skipped]:
    if whole.damaged_digest:
        yield Skipped(
            LATEST, f"digits of its sha256 are damaged; it names {whole.folder.name}, which is whole"
        )


def collections_in(root: Path) -> Iterator[Collection]:
    """Of every checkpoint that says what it is, published or not, whole or not; the newest first."""
    for _, folder in reversed(_folders(root)):
        with contextlib.suppress(OSError, *NOT_JSON):
            yield msgspec.json.decode(
                read_at_most(folder / COLLECTION, MOST_COLLECTION_BYTES), type=Collection
            )


def episodes_named(root: Path) -> Iterator[EpisodeId]:
    """Every episode that any of them names: its attempt has been used."""
    for collection in collections_in(root):
        yield from collection.continued
        yield from collection.restarted


def _rungs(root: Path, latest: Latest | None) -> Iterator[Path]:
    """What LATEST names, there or not, and the folders below it; all, where nobody knows what it named."""
    if latest is not None:
        yield root / folder_name(latest.sequence)
    for sequence, folder in reversed(_folders(root)):
        if latest is None or sequence < latest.sequence:
            yield folder


def _folders(root: Path) -> list[tuple[int, Path]]:
    try:
        return list(checkpoint_folders(root).items())
    except StorageError:
        return []
