"""Sets have one order in every process: then a seed draws the same always, and a replay goes the same way."""

import os
import sys
from typing import Final

_SEED: Final = "PYTHONHASHSEED"
_PINNED: Final = "0"


def is_pinned() -> bool:
    """Whether this process was started so, and with it all that it starts."""
    return os.environ.get(_SEED) == _PINNED


def pin() -> None:
    """Begin anew so, as Python asks for the order of sets only when it starts."""
    if not is_pinned():
        os.environ[_SEED] = _PINNED
        os.execv(sys.executable, sys.orig_argv)
