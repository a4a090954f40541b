"""What is called how in a checkpoint directory, and what of it is ours."""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from triocollect.durable import unreadable

LATEST: Final = "LATEST"
COLLECTION: Final = "collection.json"
TRASH: Final = ".trash-"
MODE: Final = 0o600  # a file of ours may hold what users asked and models said
FOLDER_MODE: Final = 0o700

_FOLDER: Final = re.compile(r"ckpt-([0-9]{6}|[1-9][0-9]{6,11})")
_REST: Final = re.compile(rf"\.(?:trash|tmp)-{_FOLDER.pattern}")
_DRAFT: Final = re.compile(rf"\.{LATEST}\.tmp|{LATEST}\..+\.tmp")


def folder_name(sequence: int) -> str:
    """`ckpt-000007` for 7."""
    return f"ckpt-{sequence:06d}"


def sequence_of(name: str) -> int | None:
    """The inverse of `folder_name`; None for what is not ours."""
    match = _FOLDER.fullmatch(name)
    return None if match is None else int(match.group(1))


def new_checkpoint_id(sequence: int) -> str:
    """Never the same twice, also where a directory was copied and both copies are used."""
    return f"c-{sequence:06d}-{secrets.token_hex(4)}"


def names_in(root: Path) -> list[str]:
    """Everything in the directory, sorted; nothing where it is not there yet. Raises StorageError."""
    try:
        return sorted(path.name for path in root.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(root, error) from error


def checkpoint_folders(root: Path) -> dict[int, Path]:
    """The folders of checkpoints, whole or not, lowest sequence number first.

    A file or a link of that name is not ours: it is neither read nor removed.
    """
    found = {sequence: root / name for name in names_in(root) if (sequence := sequence_of(name)) is not None}
    try:
        return {number: path for number, path in sorted(found.items()) if is_folder(path)}
    except OSError as error:
        raise unreadable(root, error) from error


def is_folder(path: Path) -> bool:
    """A folder itself, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def numbers_seen(root: Path) -> Iterator[int]:
    """Every sequence number that a name in the directory uses up, those of removed folders too."""
    for name in names_in(root):
        if (sequence := sequence_of(name.removeprefix(TRASH))) is not None:
            yield sequence


def is_rest(path: Path) -> bool:
    """Whether this is what a writer that died left behind: a temporary of ours, by its exact name.

    Drafts of the lock's holder are none: they may be at work, and the next collector writes over them.
    """
    if path.is_symlink():
        return False
    return _REST.fullmatch(path.name) is not None or (
        _DRAFT.fullmatch(path.name) is not None and path.is_file()
    )
