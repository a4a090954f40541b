"""A server's own account of what it did, one JSON line each, for whoever judges it from outside.

A line that was appended is with the operating system. It is not synced: the state that it tells of is not on
disk either.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from triocollect.errors import DeploymentError

Journal: TypeAlias = Callable[[msgspec.Struct], None]


def journal(path: str | None, called: str) -> Journal:
    """What appends lines to this file, to nowhere for None; it raises OSError.

    Raises DeploymentError where the file, `called` so, cannot be written.
    """
    if path is None:
        return lambda _line: None
    file = Path(path)
    try:
        file.touch()
    except OSError as problem:
        raise DeploymentError(f"{called} {path}: {problem.strerror}") from problem

    def append(line: msgspec.Struct) -> None:
        # Opened for each line: nothing is left to close, and a file that was moved away is begun anew.
        with file.open("ab", buffering=0) as lines:
            lines.write(msgspec.json.encode(line) + b"\n")

    return append
