"""Whose work a checkpoint directory holds: several outputs may share one, and each goes on with its own rows.

Log and checkpoints name the run (`RunFile`) of the output that they are of, and so does its run file.
"""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import UNSET

from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.ladder import collections_in
from triocollect.checkpoint.names import LATEST
from triocollect.checkpoint.sent import read_header
from triocollect.collector.earlier import Files, read_run_file
from triocollect.errors import StorageError
from triocollect.rows.names import run_path


def known_as(files: Files, root: Path) -> str | None:
    """The run that an output without a run file was: one that the directory names, and no other run file.

    None where the output has no rows, or nothing tells.
    """
    if not (files.with_rows() or files.materialized.exists()):
        return None
    others = _runs_beside(files, root)
    return next((run for run in _named_in(root) if run not in others), None)


def run_of(files: Files, root: Path) -> str | None:
    """The run that the output is, by its own run file, or by the directory. Raises StorageError."""
    earlier, _ = read_run_file(files.run)
    return known_as(files, root) if earlier is None else earlier.run


def traces(files: Files, root: Path) -> list[Path]:
    """What only an earlier run of this output leaves in a directory. Raises StorageError.

    Where nothing in it says which output it is of, it may have been this one.
    """
    found = [path for path in (root / LATEST, root / DISPATCHED) if os.path.lexists(path)]
    named = _named_in(root) if found else []
    return found if not named or run_of(files, root) in named else []


def _named_in(root: Path) -> list[str]:
    """The runs that log and checkpoints name; the last one to collect there comes first."""
    header = read_header(root / DISPATCHED)
    of_log = None if header is None else header.output
    of_checkpoints = (one.output for one in collections_in(root) if one.output is not UNSET)
    return [run for run in (of_log, *of_checkpoints) if run]


def _runs_beside(files: Files, root: Path) -> set[str]:
    """Those of other outputs near this one or near the directory."""
    ours, runs = files.run.absolute(), set[str]()
    for folder in {ours.parent, root.absolute().parent}:
        for path in folder.glob(run_path(Path("*.jsonl")).name):
            with suppress(StorageError):
                other = None if path == ours else read_run_file(path)[0]
                runs.update(() if other is None else (other.run,))
    return runs
