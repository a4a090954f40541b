"""For how long bytes that are with the kernel, and not on disk yet, are kept: this boot, and this mount.

A machine that dies loses them. So does a file system that shuts itself down after an error (XFS does) and is
mounted again, with the machine still up: the boot's id is the same afterwards, the mount's is not.
"""

import ctypes
import functools
import os
import secrets
import sys
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN_BOOT: Final = secrets.token_hex(8)  # equals no other process's: nothing is known to have survived

# statx(2), which the standard library does not have. Linux 6.8 and later tell mounts apart for good; the
# numbers in /proc/self/mountinfo are given out again.
_AT_FDCWD: Final = -100
_MOUNT: Final = 0x4000  # STATX_MNT_ID_UNIQUE
_MOUNT_AT: Final = 144  # of stx_mnt_id, 8 bytes, in the 256 bytes of struct statx
_STATX_BYTES: Final = 256


def term_of(folder: Path) -> str:
    """What stays the same for as long as the kernel keeps what was written in `folder`. Raises nothing.

    Where the kernel does not tell mounts apart it is the boot alone.
    """
    return f"{_boot()}/{_mount_of(folder)}"


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip() or _UNKNOWN_BOOT
    except OSError:
        return _UNKNOWN_BOOT


def _mount_of(folder: Path) -> str:
    told = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        statx = _libc().statx
    except (OSError, AttributeError):
        return ""
    if statx(_AT_FDCWD, os.fsencode(folder), 0, _MOUNT, told) != 0:
        return ""
    is_told = int.from_bytes(told.raw[:4], sys.byteorder) & _MOUNT  # stx_mask
    return str(int.from_bytes(told.raw[_MOUNT_AT : _MOUNT_AT + 8], sys.byteorder)) if is_told else ""


@functools.cache
def _libc() -> ctypes.CDLL:
    """Loaded once. Raises OSError."""
    return ctypes.CDLL(None)
