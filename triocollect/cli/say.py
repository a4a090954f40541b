"""The only place that prints. A reader that has gone away (`| head`) silences a stream and ends nothing."""

import os
import sys
from typing import TextIO


def out(text: str) -> None:
    """A line for the one who asked: standard output."""
    _write(sys.stdout, text)


def err(text: str) -> None:
    """A line beside the output proper: standard error."""
    _write(sys.stderr, text)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # the process was started with the stream closed
        return
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:
        _silence(stream)
    except UnicodeEncodeError:
        stream.write(ascii(text)[1:-1].replace("\\n", "\n") + "\n")


def _silence(stream: TextIO) -> None:
    """Nothing more is written, not even by the interpreter when it ends and flushes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
