"""How many files and sockets this process has open: what is left open shows there."""

import os


def open_files() -> int:
    """A number to be compared with another."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # only how many
