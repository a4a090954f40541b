"""A disk whose power can be cut: an XFS in a file. What no sync has brought to it is gone then."""

import fcntl
import subprocess
import uuid
from pathlib import Path

from tests.processes.commands import until

SIZE = 320 << 20  # mkfs.xfs makes none below 300 MB; the file is sparse
IMAGE, PLACE = "power-cut-disk.img", "power-cut-disk"  # names that tell its mounts from all others
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Disk:
    """Mounted at `place` while it has power; locked by the process that made it for as long as both live."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError or subprocess.CalledProcessError where there is no XFS or no leave to mount."""
        self._image, self.place = folder / IMAGE, folder / PLACE
        self.place.mkdir()
        self._lock = self._image.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._lock.truncate(SIZE)
        try:
            _run("mkfs.xfs", "-q", self._image)
            self.switch_on()
        except BaseException:
            self._lock.close()
            raise

    def cut_power(self):
        """From now on every process with a file here gets errors."""
        _run("xfs_io", "-x", "-c", "shutdown", self.place)

    def switch_on(self):
        """What is there now is what survived."""
        _run("mount", "-t", "xfs", "-o", "loop", self._image, self.place)

    def switch_off(self):
        """Once nobody who was started here is left: they may have mounts of their own."""
        assert until(lambda: _succeeds("umount", self.place)), "files are open"
        assert until(lambda: not _run("losetup", "--associated", self._image)), "it is still mounted"

    def take_down(self):
        """Whatever was done with it and whoever uses it."""
        if self.place.is_mount():
            _take_down(self.place)
        self._lock.close()


def take_down_strays():
    """Disks of processes that were killed; what these have started dies of it, if it is left."""
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        place = Path(mount.split()[1])
        if place.name == PLACE and _is_stray(place.with_name(IMAGE)):
            _take_down(place)


def on_a_machine_booted_anew(disk, program):
    """A command that starts a program to which the boot is another than any before.

    Where the kernel does not tell mounts apart (before Linux 6.8) a run cannot see a cut otherwise.
    """
    boot_id = disk.place.with_name("boot_id")
    boot_id.write_text(f"{uuid.uuid4()}\n")
    elsewhere = f'mount --bind {boot_id} {BOOT_ID} && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", elsewhere, "sh", *program)


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
    _succeeds("xfs_io", "-x", "-c", "shutdown", place)
    _run("umount", "--lazy", place)


def _run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _succeeds(*command):
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
