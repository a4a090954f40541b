"""The only place that prints. A reader that has gone away (`| head`) silences a stream and ends nothing.

What stands on standard output is somebody's result: where it cannot be written otherwise, that is an error.
"""

import contextlib
import os
import sys
from typing import TextIO

from triocollect.errors import StorageError
from triocollect.report.machine import spelled_out


def out(text: str) -> None:
    """A line for the one who asked: standard output. Raises StorageError."""
    try:
        _write(sys.stdout, text)
    except OSError as fault:
        told = f"cannot write to standard output: {fault.strerror or fault}"
        raise StorageError(told, path="standard output") from fault


def err(text: str) -> None:
    """A line beside the output proper: standard error."""
    with contextlib.suppress(OSError):  # there is nobody left to tell
        _write(sys.stderr, text)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # the process was started with the stream closed
        return
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(spelled_out(text).encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        _silence(stream)
    except OSError:
        _silence(stream)
        raise


def _silence(stream: TextIO) -> None:
    """Nothing more is written, not even by the interpreter when it ends and flushes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
