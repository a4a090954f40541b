"""The checkpoints of a directory: begin, publish, prune, discard, forget.

LATEST moves last and never back; what it names is whole and is never removed. Everything here may block for
long, and one call is made at a time.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
from attrs import frozen

from triocollect.capture.retention import remove_files
from triocollect.checkpoint.keeping import ANY, newest_of_each, output_of
from triocollect.checkpoint.ladder import Rung, find_checkpoint, read_latest
from triocollect.checkpoint.names import (
    COLLECTION,
    FOLDER_MODE,
    LATEST,
    MODE,
    TRASH,
    checkpoint_folders,
    folder_name,
    is_folder,
    is_rest,
    names_in,
    numbers_seen,
    sequence_of,
)
from triocollect.checkpoint.rubbish import Rubbish
from triocollect.checkpoint.staged import unneeded_packs
from triocollect.checkpoint.whole import check_parts, folders_to, read_whole
from triocollect.durable import make_folder, move, remove, replace, set_aside, sync_folder
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.encoding import encode_file
from triocollect.protocol.manifests import Collection, Latest


@frozen
class NowLatest:
    """LATEST names this one now. `bytes`: of all records.

    `unsynced`: why a power cut could still bring the one before back, where that is so; then nothing is
    pruned. `aside`: what bore the name before and was no file.
    """

    latest: Latest
    bytes: int
    unsynced: str | None = None
    aside: str | None = None


class Store:
    """One directory's checkpoints; whoever uses it holds the directory's lock.

    `confirm` is asked right before LATEST moves and raises when another collector has taken the directory
    over: a lock may hold on one host only.
    """

    def __init__(self, root: Path, *, confirm: Callable[[], None] = lambda: None) -> None:
        self.root: Final = root
        self._confirm: Final = confirm
        self._highest = 0  # number given out by this store
        self._never_second: Final = set[int]()  # damaged, or never published: not to be kept beside LATEST's
        self._may_prune = True

    def find(self, *, input_sha256: str | None = None, output: str | None = None) -> Rung:
        """What a restart continues from. Remembers what was passed over, so that a prune keeps none of it.

        With `input_sha256` a checkpoint of another input is passed over, with `output` one of another output.
        """
        rung = find_checkpoint(self.root, input_sha256=input_sha256, output=output)
        numbers = (sequence_of(skipped.name) for skipped in rung.skipped if not skipped.of_another)
        self._never_second.update(number for number in numbers if number is not None)
        return rung

    def standing(self) -> str:
        """Which checkpoint counts now, in a sentence."""
        with contextlib.suppress(StorageError):
            if (latest := self._latest()) is not None:
                return f"the checkpoint before stands: {latest.checkpoint_id}; a restart goes on from it"
        return "there is no checkpoint: rows in flight start from their input"

    def next_sequence(self, floor: int = 0) -> int:
        """A number above every one in the directory, every one given out here, and `floor`."""
        try:
            latest = self._latest()
        except StorageError:  # the folders tell; what is wrong with LATEST shows when it is to move
            latest = None
        used = [floor, self._highest, *numbers_seen(self.root), 0 if latest is None else latest.sequence]
        self._highest = max(used) + 1
        return self._highest

    def begin(self, sequence: int) -> Path:
        """Make the folder that participants commit into; its name is durable before any of them is asked."""
        folder = self.root / folder_name(sequence)
        make_folder(folder, mode=FOLDER_MODE)
        return folder

    def publish(self, collection: Collection) -> NowLatest:
        """Make a checkpoint the one that counts. The order of the durable steps is here and nowhere else.

        The participants' files are durable already, and so are output, sidecar and dispatch log: a checkpoint
        must not outlive the facts that it leaves out. Raises DamageError where the participants' files are
        not what they said, StorageError, and what `confirm` raises; LATEST has its old bytes then.
        """
        folder = self.root / folder_name(collection.sequence)
        size = check_parts(folder, collection, hash_records=False)
        for between in folders_to(folder, collection):
            sync_folder(between)  # participants sync the folder they write in, not those on the way to it
        data = encode_file(collection)
        latest = Latest(collection.checkpoint_id, collection.sequence, hashlib.sha256(data).hexdigest())
        replace(folder / COLLECTION, data, mode=MODE)
        self._confirm()
        self._set_aside(self._unpublished(collection.sequence))
        aside = set_aside(self.root / LATEST)
        unsynced = self._point_at(latest)
        self._may_prune = unsynced is None
        return NowLatest(latest, size, unsynced, aside)

    def prune(self) -> tuple[str, ...]:
        """Keep what LATEST names and the newest whole checkpoint of each output below it; remove the rest.

        Returns what could not be removed, in words: the checkpoint stands whatever comes of this.
        """
        try:
            latest = self._latest() if self._may_prune else None
            if latest is None:
                return ()
            folders = checkpoint_folders(self.root)
            kept = {latest.sequence, *newest_of_each(folders, latest.sequence, self._may_stay)}
            doomed = [folder for sequence, folder in folders.items() if sequence not in kept]
            return self._remove(doomed, latest.sequence)
        except StorageError as error:
            return (str(error),)

    def discard(self, sequence: int) -> tuple[str, ...]:
        """Remove the folder of a try that failed, unless LATEST names it after all. As `prune` otherwise."""
        folder = self.root / folder_name(sequence)
        try:
            latest = self._latest()
            named = 0 if latest is None else latest.sequence
            doomed = [folder] if named != sequence and is_folder(folder) else []
            return self._remove(doomed, named)
        except StorageError as error:
            return (f"{folder} stays: {error}",)

    def sweep(self, rubbish: Rubbish) -> tuple[str, ...]:
        """Remove what no start needs; what could not be, in words. Raises StorageError."""
        latest = self._latest()
        troubles = list(self._remove(rubbish.folders, 0 if latest is None else latest.sequence))
        for path in rubbish.rests:
            if path.is_file():  # the others went with the folders
                try:
                    path.unlink()
                except OSError as error:
                    troubles.append(f"cannot remove {path}: {error.strerror or error}")
        return tuple(troubles)

    def forget(self, run: str | None = None) -> tuple[str, ...]:
        """Forget all checkpoints: LATEST first, so that a death on the way leaves none. Foreign files stay.

        Those that say that they are of another output than that of `run` stay, and LATEST with them, whatever
        it names: it never goes back, and the output that begins afresh has another run from now on. Returns
        what could not be removed, in words; raises StorageError where LATEST could not.
        """
        if (doomed := self._doomed_beside_others(run)) is not None:
            return self._remove(doomed, 0)
        aside = set_aside(self.root / LATEST)
        remove(self.root / LATEST)
        troubles = self._remove(checkpoint_folders(self.root).values(), 0)
        return troubles if aside is None else (aside, *troubles)

    def _doomed_beside_others(self, run: str | None) -> list[Path] | None:
        """The folders that are of no other output, but for LATEST's own; None where others have none."""
        folders, latest = checkpoint_folders(self.root), self._latest()
        outputs = {number: output_of(folder) for number, folder in folders.items()}
        others = {number for number, output in outputs.items() if output not in {None, ANY, run}}
        named = None if latest is None else latest.sequence
        if not any(named is None or number <= named for number in others) or (
            named is not None and outputs.get(named) == ANY
        ):
            return None
        if named is not None and named not in others:
            self._never_second.add(named)
        return [folder for number, folder in folders.items() if number not in {named, *others}]

    def _latest(self) -> Latest | None:
        """None for a damaged one too: it names nothing. Raises StorageError."""
        try:
            return read_latest(self.root)
        except DamageError:
            return None

    def _unpublished(self, sequence: int) -> set[int]:
        """Folders that LATEST has never named, as far as can be told."""
        try:
            latest = read_latest(self.root)
        except (DamageError, StorageError):
            return set()
        above = -1 if latest is None else latest.sequence
        return {other for other in checkpoint_folders(self.root) if other > above and other != sequence}

    def _set_aside(self, unpublished: Iterable[int]) -> None:
        """Keep these from being taken for published ones when LATEST names a higher number.

        A restart that passes LATEST's own folder over would climb down to them, also to those of a run that
        was forgotten. The next prune deletes them.
        """
        for sequence in unpublished:
            folder = self.root / folder_name(sequence)
            self._never_second.add(sequence)
            with contextlib.suppress(StorageError):
                move(folder, self.root / f"{TRASH}{folder.name}")

    def _point_at(self, latest: Latest) -> str | None:
        """Move LATEST; why that is not durable, where it moved and could not be synced."""
        data = msgspec.json.encode(latest) + b"\n"
        try:
            replace(self.root / LATEST, data, mode=MODE)
        except StorageError as error:
            with contextlib.suppress(OSError):
                if (self.root / LATEST).read_bytes() == data:
                    return str(error)
            raise
        return None

    def _may_stay(self, sequence: int) -> bool:
        if sequence in self._never_second:
            return False
        with contextlib.suppress(DamageError):
            read_whole(self.root / folder_name(sequence), hash_records=False)
            return True
        return False

    def _remove(self, folders: Iterable[Path], latest: int) -> tuple[str, ...]:
        """Remove folders, and temporaries of ours; what could not be, in words. Raises StorageError.

        Rename, then delete: what bears a checkpoint's name is never half deleted.
        """
        troubles: list[str] = []
        for folder in folders:
            trash = self.root / f"{TRASH}{folder.name}"
            try:
                if trash.exists():
                    shutil.rmtree(trash)
                move(folder, trash)
                _empty(trash)
            except StorageError as error:
                troubles.append(str(error))
            except OSError as error:
                troubles.append(f"cannot remove {trash}: {error.strerror or error}")
        return (*troubles, *self._remove_rests(latest), *self._remove_packs())

    def _remove_packs(self) -> tuple[str, ...]:
        """Staged cuts that no checkpoint names which is still there."""
        return remove_files(unneeded_packs(self.root, checkpoint_folders(self.root).values()))

    def _remove_rests(self, latest: int) -> tuple[str, ...]:
        """The highest number, unless LATEST has it, stays used: by a trash folder that is empty."""
        troubles: list[str] = []
        highest = max(numbers_seen(self.root), default=0)
        for path in map(self.root.joinpath, names_in(self.root)):
            number = sequence_of(path.name.removeprefix(TRASH))
            try:
                if not is_rest(path):
                    continue
                if not path.is_dir():
                    path.unlink()
                elif number is None or number <= latest or number < highest:
                    shutil.rmtree(path)
                else:
                    _empty(path)
            except OSError as error:
                troubles.append(f"cannot remove {path}: {error.strerror or error}")
        return tuple(troubles)


def _empty(folder: Path) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()
