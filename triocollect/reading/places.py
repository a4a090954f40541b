"""Which output and which checkpoint directory belong together, from either of them.

`<stem>_run.json` holds the id of the directory that was used last, and the directory's lock file holds its
own: where the two are equal they belong together, wherever they were moved.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen
from msgspec import UNSET

from triocollect.checkpoint.directory import DISPATCHED, OUTCOMES
from triocollect.checkpoint.names import LATEST, sequence_of
from triocollect.collector.earlier import read_run_file
from triocollect.collector.last_directory import id_of
from triocollect.errors import StorageError, UsageError
from triocollect.protocol.files import RunFile
from triocollect.protocol.manifests import LOCK
from triocollect.report.outputs import find_outputs
from triocollect.rows.names import run_path

_OURS = (LATEST, LOCK, DISPATCHED, OUTCOMES)


@frozen
class Place:
    """An output and its checkpoint directory; one of them is None where it was not found."""

    output: Path | None
    directory: Path | None


def places(path: Path, *, output: Path | None = None, directory: Path | None = None) -> list[Place]:
    """What stands at `path`: a run's folder, an output, or a checkpoint directory, each with its other half.

    The other half is looked for in the folder, in the one above, in those beside it and where the run file
    says that it was; `output` and
    `directory` name it where it lies elsewhere. Raises UsageError where nothing of ours is there.
    """
    for named in filter(None, (path, output, directory)):
        _could_be(named)
    if directory is not None and not is_directory(directory):
        raise UsageError(f"--checkpoint-dir {directory}: is no checkpoint directory")
    if is_directory(path):
        outputs = outputs_of(path) if output is None else find_outputs([output])
        return [Place(one, path) for one in outputs] or [Place(None, path)]
    folder = path if path.is_dir() else path.parent
    known = [directory] if directory is not None else _directories(_inside(folder))
    outputs = _outputs_at(path if output is None else output, needed=not (known and path.is_dir()))
    if directory is not None:
        return [Place(one, directory) for one in outputs]
    found = [Place(one, _directory_of(one, known, alone=len(outputs) == 1)) for one in outputs]
    if not path.is_dir():
        return found
    taken = {one.directory for one in found}
    return [*found, *(Place(None, one) for one in known if one not in taken)]


def no_directory(output: Path | None) -> str:
    """What to say of an output of which one is needed, or would be welcome."""
    return f"{output}: no checkpoint directory is near it; --checkpoint-dir names one"


def _could_be(path: Path) -> None:
    try:
        path.exists()
    except OSError as fault:  # too long a name, a folder that nobody may look into
        raise UsageError(f"{path}: {fault.strerror or fault}") from None


def is_directory(folder: Path) -> bool:
    """Whether this is a checkpoint directory, or what is left of one."""
    with contextlib.suppress(OSError):
        return folder.is_dir() and any(
            one.name in _OURS or sequence_of(one.name) is not None for one in folder.iterdir()
        )
    return False


def outputs_of(directory: Path) -> list[Path]:
    """Those whose run file holds its id; the only one beside it, where no id tells."""
    run, outputs = id_of(directory), _outputs_in([directory, *_around(directory)])
    if found := [one for one in outputs if run is not None and _used_by(one) == run]:
        return found
    beside = _outputs_in([directory.parent])
    unknown = [one for one in beside if _used_by(one) is None and _may_belong(one)]
    return unknown if len(beside) == 1 and len(_directories(_inside(directory.parent))) == 1 else []


def _outputs_at(path: Path, *, needed: bool) -> list[Path]:
    try:
        return find_outputs([path])
    except UsageError:
        if needed:
            raise
        return []


def _directory_of(output: Path, near: list[Path], *, alone: bool) -> Path | None:
    """The one whose id its run file holds; the only one near the only output, where no id tells."""
    used = _used_by(output)
    if used is not None:
        beside = (one for one in _directories(_around(output.parent)) if one not in near)
        return next((one for one in (*near, *beside, *_recorded(output)) if id_of(one) == used), None)
    return near[0] if alone and len(near) == 1 and _may_belong(output) else None


def _run_file(output: Path) -> RunFile | None:
    with contextlib.suppress(StorageError):
        return read_run_file(run_path(output))[0]
    return None


def _used_by(output: Path) -> str | None:
    """The id that an output's run file holds."""
    run_file = _run_file(output)
    return None if run_file is None or run_file.checkpoints is UNSET else run_file.checkpoints


def _recorded(output: Path) -> list[Path]:
    """Where the directory was when rows were sent with it the last time."""
    run_file = _run_file(output)
    if run_file is None or run_file.checkpoint_dir is UNSET:
        return []
    return _directories([Path(run_file.checkpoint_dir)])


def _may_belong(output: Path) -> bool:
    """Whether the run file does not say that the run had no checkpoint directory."""
    with contextlib.suppress(StorageError):
        return read_run_file(run_path(output))[0] is None
    return True


def _outputs_in(folders: Iterable[Path]) -> list[Path]:
    found = dict[Path, None]()
    for folder in folders:
        with contextlib.suppress(UsageError):
            found.update(dict.fromkeys(find_outputs([folder])))
    return list(found)


def _directories(folders: Iterable[Path]) -> list[Path]:
    return [folder for folder in folders if is_directory(folder)]


def _around(folder: Path) -> Iterator[Path]:
    """The folder above, and those beside this one."""
    above = folder.parent if folder.name not in {"", ".."} else folder.resolve().parent
    yield above
    yield from _inside(above)


def _inside(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())
    return []
