"""Where folders for a while are: in memory, where there is a file system for that."""

import os
from typing import Final

_IN_MEMORY: Final = "/dev/shm"
SCRATCH: Final = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK | os.X_OK) else None  # as `tempfile` takes it
