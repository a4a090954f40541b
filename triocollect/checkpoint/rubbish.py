"""What of a checkpoint directory no start needs: a run prunes it after each publish, a death may leave it.

Only names that are ours in every letter, and never what LATEST names. Whoever removes it holds the lock.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from triocollect.checkpoint.directory import DISPATCHED, OUTCOMES, PID
from triocollect.checkpoint.keeping import newest_of_each
from triocollect.checkpoint.ladder import read_latest
from triocollect.checkpoint.names import (
    COLLECTION,
    TRASH,
    checkpoint_folders,
    is_rest,
    names_in,
    numbers_seen,
    sequence_of,
)
from triocollect.checkpoint.sent import read_dispatched
from triocollect.checkpoint.staged import unneeded_packs
from triocollect.checkpoint.whole import read_whole
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.manifests import LOCK

_DRAFTS: Final = frozenset(f".{name}.tmp" for name in (LOCK, PID, DISPATCHED, OUTCOMES))
_KEPT: Final = 2


@frozen
class Rubbish:
    """`folders` of checkpoints, `rests` beside them, and staged `packs` that none of those that stay names.

    The names of what is `kept`, and why it is more.
    """

    folders: tuple[Path, ...]
    rests: tuple[Path, ...]
    packs: tuple[Path, ...]
    kept: tuple[str, ...]
    note: str | None = None


def _is_whole(folder: Path) -> bool:
    try:
        read_whole(folder)
    except DamageError:
        return False
    return True


def rubbish_in(root: Path, is_whole: Callable[[Path], bool] = _is_whole) -> Rubbish:
    """Look. Raises StorageError.

    `is_whole`: of a checkpoint's folder that may have to stay, for who knows; else every byte of it is read.
    """
    folders = checkpoint_folders(root)
    latest = _latest(root)
    needed, note = _needed(folders, latest, is_whole), None
    if not read_dispatched(root / DISPATCHED, keep=lambda _: False).complete:
        named = {number for number, folder in folders.items() if (folder / COLLECTION).is_file()}
        if named - needed:
            note = (
                f"{DISPATCHED} is lost, so which attempts were sent is known from checkpoints alone: all stay"
            )
        needed |= named
    return Rubbish(
        folders=tuple(folder for number, folder in folders.items() if number not in needed),
        rests=tuple(_rests(root, 0 if latest is None else latest)),
        packs=unneeded_packs(root, (folder for number, folder in folders.items() if number in needed)),
        kept=tuple(folder.name for number, folder in folders.items() if number in needed),
        note=note,
    )


def _latest(root: Path) -> int | None:
    """The number that LATEST names; None where there is none, or none that can be read."""
    try:
        latest = read_latest(root)
    except (DamageError, StorageError):
        return None
    return None if latest is None else latest.sequence


def _needed(folders: dict[int, Path], latest: int | None, is_whole: Callable[[Path], bool]) -> set[int]:
    """What LATEST names, whole or not, and what stays below it; without LATEST also the two newest."""
    needed = newest_of_each(folders, latest, lambda number: is_whole(folders[number]))
    if latest is not None:
        return {latest, *needed}
    for number in sorted(folders.keys() - needed, reverse=True):
        if len(needed) < _KEPT and is_whole(folders[number]):
            needed.add(number)
    return needed


def _rests(root: Path, latest: int) -> Iterator[Path]:
    """Temporaries, trash, and the number of a process that is gone.

    The highest number stays used by an empty trash folder, unless LATEST has it: that is no rubbish.
    """
    highest = max(numbers_seen(root), default=0)
    for path in map(root.joinpath, names_in(root)):
        number = sequence_of(path.name.removeprefix(TRASH))
        keeps_number = number == highest > latest and path.name.startswith(TRASH)
        if is_rest(path):
            if not (keeps_number and path.is_dir() and not any(path.iterdir())):
                yield path
        elif (path.name in _DRAFTS or path.name == PID) and path.is_file() and not path.is_symlink():
            yield path
