"""What an earlier run left beside the output, and whether to continue it or start afresh."""

import contextlib
import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from triocollect.config.settings import OutputConfig
from triocollect.durable import AppendFile, read_at_most, remove, unreadable
from triocollect.errors import NothingToResumeError, UsageError, WouldOverwriteError
from triocollect.protocol.files import RunFile
from triocollect.protocol.values import NOT_JSON
from triocollect.rows.names import aggregate_path, failures_path, materialized_path, run_path, torn_path

_MOST_BYTES: Final = 1 << 24
_NO_SUCH_FILE_OF_OURS: Final = (errno.EINVAL, errno.EFBIG, errno.EISDIR, errno.ELOOP, errno.ENXIO)


class Files:
    """The files of one output, by name."""

    def __init__(self, output: Path) -> None:
        self.output: Final = output
        self.failures: Final = failures_path(output)
        self.materialized: Final = materialized_path(output)
        self.aggregate: Final = aggregate_path(output)
        self.run: Final = run_path(output)
        self.torn: Final = torn_path(output)

    def keep_off(self, source: Path) -> None:
        """Raise UsageError where a file of this output is the input itself, under whatever name."""
        for path in (self.output, self.failures, self.materialized, self.aggregate, self.run, self.torn):
            with contextlib.suppress(OSError):
                if path.samefile(source):
                    raise UsageError(f"--output: {path} is the input file itself; name another output")

    def with_rows(self) -> list[Path]:
        """Those of output and sidecar that hold anything."""
        return [path for path in (self.output, self.failures) if _size(path)]


def continues(config: OutputConfig, files: Files, more: Iterable[Path] = ()) -> bool:
    """Whether the run continues an earlier one, by the user's wish and what is there.

    `more`: other files that only an earlier run leaves; never empty ones, unless they are damaged.
    Raises NothingToResumeError (`must` with nothing there) and WouldOverwriteError (`never` over rows).
    """
    found = [*files.with_rows(), *_with_rows_in_flight(files), *filter(os.path.lexists, more)]
    match config.resume:
        case "auto":
            return bool(found)
        case "must":
            if not found:
                raise NothingToResumeError(
                    f"nothing to resume: {files.output} and {files.failures.name} hold no rows; "
                    "leave --resume out to start a run"
                )
            return True
        case "never":
            if found and not config.overwrite:
                hold = f"{' and '.join(map(str, found))} {'hold' if found[1:] else 'holds'}"
                raise WouldOverwriteError(
                    f'{hold} rows of an earlier run; "overwrite": True deletes them, "resume": "auto" '
                    "continues them",
                    at_command_line=f"{hold} rows of an earlier run; --overwrite deletes them, --resume auto "
                    "continues them",
                )
            return False


def forget(files: Files, output: AppendFile) -> None:
    """Delete what an earlier run left. The output goes first: rows of two runs are never mixed.

    The output is emptied, not removed: the lock is on it. Foreign files stay.
    """
    if output.size:
        output.truncate(0)
        output.sync()
    for path in (files.failures, files.aggregate, files.torn, files.run):
        if path.exists():
            remove(path)


def _with_rows_in_flight(files: Files) -> list[Path]:
    """The run file, where rows were sent with a checkpoint directory: perhaps not one of them has ended."""
    run_file, _ = read_run_file(files.run)
    return [] if run_file is None or run_file.checkpoints is UNSET else [files.run]


def read_run_file(path: Path) -> tuple[RunFile | None, str | None]:
    """(What it says, what is wrong with it). A damaged one is no reason to fail for ever: the rows decide."""
    try:
        data = read_at_most(path, _MOST_BYTES)
        data.decode()  # the parser passes over names that it does not know, and damaged ones are such
        return msgspec.json.decode(data, type=RunFile), None
    except FileNotFoundError:
        return None, None
    except NOT_JSON as error:
        return None, f"{path} is damaged ({error}); it is written anew from the rows"
    except OSError as error:
        if error.errno in _NO_SUCH_FILE_OF_OURS:
            return None, f"{path} is damaged ({error.strerror}); it is written anew from the rows"
        raise unreadable(path, error) from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise unreadable(path, error) from error
