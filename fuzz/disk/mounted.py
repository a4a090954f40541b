"""A disk whose power can be cut: an XFS or ext4 in a file. What no sync has brought to it is gone then."""

import contextlib
import fcntl
import os
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, Literal

from fuzz.scratch import PREFIX

PATIENCE_S: Final = 60.0
SHUTDOWN: Final = 0x8004587D  # XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN, which are the same
AT_ONCE: Final = 2  # not even the journal is written: *_GOING_FLAGS_NOLOGFLUSH
MAKE: Final = {"xfs": ("mkfs.xfs", "-q"), "ext4": ("mkfs.ext4", "-q", "-F")}
SIZE = 320 << 20  # mkfs.xfs makes none below 300 MB; the file is sparse
IMAGE, PLACE = "power-cut-disk.img", "power-cut-disk"  # names that tell its mounts from all others


class Disk:
    """Mounted at `place` while it has power; locked by the process that made it for as long as both live."""

    def __init__(self, folder: Path, kind: Literal["xfs", "ext4"] = "xfs") -> None:
        """Raises OSError or subprocess.CalledProcessError where there is none or no leave to mount."""
        self._kind = kind
        self._image, self.place = folder / IMAGE, folder / PLACE
        self.place.mkdir()
        self._lock = self._image.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._lock.truncate(SIZE)
        try:
            _run(*MAKE[kind], self._image)
            self.switch_on()
        except BaseException:
            self._lock.close()
            raise

    def cut_power(self):
        """From now on every process with a file here gets errors."""
        cut_power(self.place)

    def switch_on(self):
        """What is there now is what survived."""
        _run("mount", "-t", self._kind, "-o", "loop", self._image, self.place)

    def switch_off(self):
        """Once nobody who was started here is left: they may have mounts of their own."""
        assert _until(lambda: _succeeds("umount", self.place)), "files are open"
        assert _until(lambda: not _run("losetup", "--associated", self._image)), "it is still mounted"

    def take_down(self):
        """Whatever was done with it and whoever uses it."""
        if self.place.is_mount():
            _take_down(self.place)
        self._lock.close()


def lacks(kind: Literal["xfs", "ext4"]) -> str | None:
    """Why there can be no such disk here, by an attempt to have one; None where there can."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        try:
            Disk(Path(folder), kind).take_down()
        except (OSError, subprocess.CalledProcessError) as fault:
            return getattr(fault, "stderr", "") or str(fault)
    return None


def cut_power(place: Path) -> None:
    """Of the disk that is mounted there: nothing reaches it from now on, and every call is an error."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", AT_ONCE))
    finally:
        os.close(descriptor)


def take_down_strays():
    """Disks of processes that were killed; what these have started dies of it, if it is left."""
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        place = Path(mount.split()[1])
        if place.name == PLACE and _is_stray(place.with_name(IMAGE)):
            _take_down(place)


def _is_stray(image):
    try:
        with image.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def _take_down(place):
    with contextlib.suppress(OSError):
        cut_power(place)
    _run("umount", "--lazy", place)


def _run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _succeeds(*command):
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _until(holds):
    """Poll for it; False when it does not come in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
