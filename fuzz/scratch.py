"""Folders for a while, in memory where there is a file system for that; their names tell whose they are."""

import os
import re
import tempfile
from pathlib import Path
from typing import Final

_IN_MEMORY: Final = "/dev/shm"
PREFIX: Final = "fuzz-"
SCRATCH: Final = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK | os.X_OK) else None  # as `tempfile` takes it
ANY: Final = re.compile(rb"\b%b\w{8}\b" % PREFIX.encode())  # what differs in the path of one from another's


def scratch() -> Path:
    """A new one."""
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=SCRATCH))
