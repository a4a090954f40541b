"""A disk that dies: before its nth step the power is cut, or the process killed.

Patches the calls with which files are changed, remembers what has been made durable, and at a power cut takes
back what has not: bytes since the last fsync of their file, names since the last fsync of their folder. Works
below one folder; everything there when it begins is durable.
"""

import errno
import os
import shutil
import stat
from pathlib import Path
from unittest.mock import patch


class DeathError(BaseException):
    """The process is no more."""


class DyingDisk:
    """`steps`: how many calls succeed before it dies; None: it never does.

    `power`: what was not synced is lost, at the end at the latest; else everything stays, as after a kill.
    `kept`: the part of the unsynced bytes of a file that survives. `fails`: the last step raises an error of
    the disk instead, and the process lives on.
    """

    def __init__(self, root, steps=None, *, power=True, kept=0.5, fails=False):
        self.root, self.steps, self.power, self.kept, self.fails = Path(root), steps, power, kept, fails
        self.taken, self.dead = [], False
        self._synced = {file.stat().st_ino: file.stat().st_size for file in self._files()}
        self._names = []  # (folder, what puts the name back)
        self._patches = []

    def _files(self):
        return [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()]

    def __enter__(self):
        for name in (
            "fsync",
            "replace",
            "rename",
            "mkdir",
            "unlink",
            "remove",
            "rmdir",
            "write",
            "ftruncate",
        ):
            real = getattr(os, name)
            wrapper = getattr(self, f"_{name}", None) or self._plain
            self._patches.append(patch.object(os, name, self._stepped(name, real, wrapper)))
        for one in self._patches:
            one.start()
        return self

    def __exit__(self, kind, error, trace):
        for one in reversed(self._patches):
            one.stop()
        if self.power and not self.fails and self.steps is not None:
            self._lose()  # at the end at the latest
        return False

    def _stepped(self, name, real, wrapper):
        def call(*args, **kwargs):
            if self.dead:
                raise DeathError
            if self.steps is not None and len(self.taken) >= self.steps:
                if not self.fails:
                    self.dead = True
                    raise DeathError
                if len(self.taken) == self.steps:
                    self.taken.append(f"{name} fails")
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            self.taken.append(name)
            return wrapper(real, *args, **kwargs)

        return call

    def _plain(self, real, *args, **kwargs):
        return real(*args, **kwargs)

    def _fsync(self, real, descriptor):
        real(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._names = [(folder, undo) for folder, undo in self._names if folder != status.st_ino]
        else:
            self._synced[status.st_ino] = status.st_size

    def _replace(self, real, old, new, **kwargs):
        old, new = Path(old), Path(new)
        before = new.read_bytes() if new.is_file() else None
        real(old, new, **kwargs)

        def undo():
            if new.exists():
                os.rename(new, old)  # noqa: PTH104  # as it is done
            if before is not None:
                new.write_bytes(before)

        self._names.append((new.parent.stat().st_ino, undo))

    _rename = _replace

    def _unlink(self, real, path, *, dir_fd=None):
        path = Path(path)
        before = path.read_bytes() if dir_fd is None and path.is_file() else None
        self._synced.pop(os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_ino, None)
        real(path, dir_fd=dir_fd)

        def undo():
            if path.parent.is_dir():
                path.write_bytes(before)

        if before is not None:
            self._names.append((path.parent.stat().st_ino, undo))

    def _mkdir(self, real, path, mode=0o777, **kwargs):
        real(path, mode, **kwargs)
        path = Path(path)

        def undo():
            shutil.rmtree(path, ignore_errors=True)  # nobody finds what lies in a folder without a name

        self._names.append((path.parent.stat().st_ino, undo))

    def _lose(self):
        for file in self._files():
            status = file.stat()
            synced = min(self._synced.get(status.st_ino, 0), status.st_size)
            os.truncate(file, synced + int((status.st_size - synced) * self.kept))
        for _, undo in reversed(self._names):
            undo()
