"""Small files that are read whole: a pipe or a device is none, since it may never end."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file, opened without waiting. Raises OSError, for other kinds of file too."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        kind = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read()
