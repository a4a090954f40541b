"""Which checkpoint a restart continues from: LATEST, else the newest other whole one, else none.

Every rung that was passed over is named with the reason. Nothing here fails a start: what cannot be read is
passed over. Reads every byte of the records, so it belongs in a thread.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from attrs import frozen

from triocollect.checkpoint.names import COLLECTION, LATEST, checkpoint_folders, folder_name
from triocollect.checkpoint.whole import Whole, read_whole
from triocollect.durable import unreadable
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Collection, Latest

_MOST_BYTES = 1 << 16
_NUMBERS = 10**12  # as many as a folder's name can have


@frozen
class Skipped:
    """What was not used, LATEST or a folder, and why not."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} was passed over: {self.why}"


@frozen
class Rung:
    """Where the ladder ended. No checkpoint and nothing skipped: there was none."""

    checkpoint: Whole | None
    skipped: tuple[Skipped, ...] = ()


def read_latest(root: Path) -> Latest | None:
    """What LATEST says; None where there is none. Raises DamageError, StorageError where it is unreadable."""
    path = root / LATEST
    try:
        with path.open("rb", buffering=0) as file:
            data = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        latest = msgspec.json.decode(data, type=Latest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        what = "it is empty" if not data.strip(b"\0 \n") else f"it is damaged: {error}"
        raise DamageError(what) from error
    if not 0 <= latest.sequence < _NUMBERS:
        raise DamageError(f"it is damaged: it names number {latest.sequence}")
    return latest


def find_checkpoint(root: Path) -> Rung:
    """Climb down from LATEST. Without LATEST there is no checkpoint, whatever folders lie about.

    Below a LATEST that can be read only lower numbers count: a folder above it was never published.
    """
    skipped: list[Skipped] = []
    latest = None
    try:
        latest = read_latest(root)
        if latest is None:
            return Rung(None)
        return Rung(read_whole(root / folder_name(latest.sequence), named=latest))
    except (DamageError, StorageError) as damage:
        skipped.append(Skipped(LATEST if latest is None else folder_name(latest.sequence), str(damage)))
    for sequence, folder in reversed(_folders(root)):
        if latest is None or sequence < latest.sequence:
            try:
                return Rung(read_whole(folder), tuple(skipped))
            except DamageError as damage:
                skipped.append(Skipped(folder.name, str(damage)))
    return Rung(None, tuple(skipped))


def episodes_named(root: Path) -> Iterator[EpisodeId]:
    """Every episode that any readable checkpoint names, published or not: its attempt has been used."""
    for _, folder in _folders(root):
        try:
            collection = msgspec.json.decode((folder / COLLECTION).read_bytes(), type=Collection)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        yield from collection.continued
        yield from collection.restarted


def _folders(root: Path) -> list[tuple[int, Path]]:
    try:
        return list(checkpoint_folders(root).items())
    except StorageError:
        return []
