"""Remove what no start needs, while nobody collects. What `gc` does."""

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec
import trio

from triocollect.checkpoint.directory import PID
from triocollect.checkpoint.names import MODE, checkpoint_folders
from triocollect.checkpoint.rubbish import Rubbish, rubbish_in
from triocollect.checkpoint.store import Store
from triocollect.durable import remove
from triocollect.errors import DamageError, LockedError, RefusedError, StorageError
from triocollect.locking import Lockable, holder_of
from triocollect.protocol.manifests import LOCK
from triocollect.reading.collector import collector_of
from triocollect.reading.places import Place, no_directory, outputs_of
from triocollect.reading.restart import restart_of
from triocollect.reading.run_status import owns
from triocollect.report.machine import as_json
from triocollect.report.status import status
from triocollect.report.wording import several
from triocollect.rows.names import aggregate_path, materialized_path, run_path


class Removed(msgspec.Struct, frozen=True):
    """A file or folder that went, or would go."""

    path: str
    bytes: int


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, or with `dry_run` would be.

    `kept`: checkpoints that stay. `troubles`: what could not be removed.
    """

    dry_run: bool
    removed: tuple[Removed, ...] = ()
    kept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()

    @property
    def freed(self) -> int:
        """The bytes of all of it."""
        return sum(one.bytes for one in self.removed)

    def as_json(self) -> bytes:
        """For programs: one JSON object."""
        return as_json({"freed": self.freed, **msgspec.structs.asdict(self)})

    def text(self) -> str:
        """For people."""
        verb = "would remove" if self.dry_run else "removed"
        lines = [f"{verb} {one.path} ({several(one.bytes, 'byte')})" for one in self.removed]
        lines += [f"kept {name}" for name in self.kept]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"trouble: {trouble}" for trouble in self.troubles]
        freed = "would be freed" if self.dry_run else "freed"
        return "\n".join([*lines, f"{several(self.freed, 'byte')} {freed}"])


def sweep(found: Sequence[Place], *, dry_run: bool) -> Swept:
    """Sweep what was found. Raises LockedError while a collector is at work, RefusedError where one may be.

    Everything is refused before anything is removed.
    """
    directories = dict.fromkeys(place.directory for place in found if place.directory is not None)
    outputs = dict.fromkeys(place.output for place in found if place.output is not None)
    with contextlib.ExitStack() as locks:
        for directory in directories:
            locks.enter_context(_alone_in(directory, dry_run=dry_run))
        for output in outputs:
            if _drafts(output):
                locks.enter_context(_locked(output, f"{output} is being written by", dry_run=dry_run))
        swept = [_sweep_directory(directory, dry_run=dry_run) for directory in directories]
        swept += [_sweep_drafts(output, dry_run=dry_run) for output in outputs]
        swept += [Swept(dry_run=dry_run, notes=_of_finished(place, outputs)) for place in found]
        if not directories:
            swept.append(Swept(dry_run=dry_run, notes=tuple(map(no_directory, outputs))))
    return Swept(
        dry_run=dry_run,
        removed=tuple(one for each in swept for one in each.removed),
        kept=tuple(one for each in swept for one in each.kept),
        notes=tuple(one for each in swept for one in each.notes),
        troubles=tuple(one for each in swept for one in each.troubles),
    )


def _sweep_directory(root: Path, *, dry_run: bool) -> Swept:
    rubbish = rubbish_in(root)
    paths = [*rubbish.folders, *rubbish.rests, *rubbish.packs]
    sizes = {path: _size(path) for path in paths}
    troubles = () if dry_run or not paths else Store(root).sweep(rubbish)
    gone = paths if dry_run else [path for path in paths if not path.exists() or _is_emptied(path)]
    return Swept(
        dry_run=dry_run,
        removed=tuple(Removed(str(path), sizes[path]) for path in gone),
        kept=tuple(str(root / name) for name in rubbish.kept),
        notes=_notes(rubbish),
        troubles=troubles,
    )


def _of_finished(place: Place, outputs: Collection[Path]) -> tuple[str, ...]:
    """That nobody needs a directory any more whose only output has all its rows."""
    output, root = place.output, place.directory
    if output is None or root is None or len(outputs_of(root)) > 1 or len(outputs) > 1:
        return ()
    if not checkpoint_folders(root) or status(output).outputs[0].left != 0:
        return ()
    restart = restart_of(output, root, owns=owns(place))
    if not restart.known or restart.continues or restart.restarts or restart.of_others:
        return ()
    return (f"every row of {output} has ended: it needs nothing of {root}, which may be removed as a whole",)


def _notes(rubbish: Rubbish) -> tuple[str, ...]:
    return () if rubbish.note is None else (rubbish.note,)


def _sweep_drafts(output: Path, *, dry_run: bool) -> Swept:
    """What a run that died in the middle of a file left beside the output."""
    removed, troubles = [], []
    for path in _drafts(output):
        size = _size(path)
        try:
            if not dry_run:
                remove(path)
            removed.append(Removed(str(path), size))
        except StorageError as error:
            troubles.append(str(error))
    return Swept(dry_run=dry_run, removed=tuple(removed), troubles=tuple(troubles))


def _drafts(output: Path) -> list[Path]:
    beside = (materialized_path(output), run_path(output), aggregate_path(output))
    drafts = (path.with_name(f".{path.name}.tmp") for path in beside)
    return [path for path in drafts if path.is_file() and not path.is_symlink()]


@contextlib.contextmanager
def _alone_in(root: Path, *, dry_run: bool) -> Iterator[None]:
    """Nobody collects there meanwhile."""
    with contextlib.suppress(DamageError, StorageError):  # the lock decides then
        if (collector := collector_of(root)).at_work == "unknown":
            raise RefusedError(
                f"{root}: {collector.words()}. If it is gone for certain, remove {root / PID} and try again"
            )
    with _locked(root / LOCK, f"{root} is in use by", dry_run=dry_run):
        yield


@contextlib.contextmanager
def _locked(path: Path, in_use: str, *, dry_run: bool) -> Iterator[None]:
    if dry_run:
        if (holder := holder_of(path)) is not None:
            raise LockedError(f"{in_use} another collector, process {holder}; wait for it or stop it")
        yield
        return
    lockable = Lockable(path=path, option="PATH", named=path, in_use=in_use, waiting="", mode=MODE)

    def refuse(text: str) -> None:
        raise RefusedError(f"{text}; nothing is removed where that cannot be known")

    locked = trio.run(lambda: lockable.lock(wait_s=None, warn=refuse))
    try:
        yield
    finally:
        locked.back_out()
        os.close(locked.descriptor)


def _is_emptied(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _size(path: Path) -> int:
    """Bytes of all files below."""
    try:
        if not path.is_dir() or path.is_symlink():
            return path.lstat().st_size
        return sum(_size(one) for one in path.iterdir())
    except OSError:
        return 0
