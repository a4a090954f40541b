"""Which staged cuts no kept checkpoint names: they go after each publish, and with `gc`.

Only names that are ours in every letter. A pack that a checkpoint names stays as long as that one does; where
a kept checkpoint cannot be read, nobody knows what it names, and all packs stay.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from triocollect.capture.staging import name_of
from triocollect.errors import StorageError

_PACK: Final = re.compile(r"[0-9a-f]{64}\.jsonl")
_DRAFT: Final = re.compile(r"\.[0-9a-f]{16}\.tmp")  # of a write that was cut off


def staged_packs(folder: Path) -> tuple[str, ...]:
    """The packs that are there, by their digest; none without the folder. Raises StorageError."""
    return tuple(name.removesuffix(".jsonl") for name in _names(folder) if _PACK.fullmatch(name))


def unnamed(folder: Path, named: Collection[str]) -> tuple[Path, ...]:
    """Files of ours that none of these packs is. Raises StorageError.

    To be asked when nobody is staging: the cut of a checkpoint under way is named by none yet.
    """
    stays = {name_of(pack) for pack in named}
    ours = (name for name in _names(folder) if _PACK.fullmatch(name) or _DRAFT.fullmatch(name))
    return tuple(folder / name for name in ours if name not in stays)


def remove_files(doomed: Collection[Path]) -> tuple[str, ...]:
    """Remove them; what could not be, in words. A pack that comes back after a power cut is found again."""
    troubles = []
    for path in doomed:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            troubles.append(f"cannot remove {path}: {error.strerror or error}")
    return tuple(troubles)


def _names(folder: Path) -> list[str]:
    """Names of plain files in it, sorted."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):  # what lies there instead is not ours
        return []
    except OSError as error:
        raise StorageError(f"cannot read {folder}: {error.strerror or error}", path=str(folder)) from error
