"""Every file call of this process below a folder, before it is done: who watches may tell it, or prevent it.

The calls are those of the code itself: the functions of `os` are replaced for a while, and so are files that
`os.fdopen` gives out. What watches is asked before each call, and may raise OSError, end the process, or have
only so many bytes of a write done.
"""

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from attrs import frozen

WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@frozen
class Call:
    """One call. `path` and `to` are relative to the folder; `data` is what a write writes.

    `name`: open (to write), look (open to read), write, truncate, fsync, close, rename, unlink, mkdir, rmdir.
    `size`: of truncate. `fresh`: an open that empties the file.
    """

    name: str
    path: str
    to: str = ""
    data: bytes = b""
    size: int = 0
    fresh: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.path}" + (f" to {self.to}" if self.to else "")


class Watcher(Protocol):
    """Who is asked. `before` returns how many bytes of a write are done, None: all; it may raise OSError."""

    def before(self, call: Call) -> int | None: ...

    def after(self, call: Call) -> None: ...


@contextlib.contextmanager
def watched(folder: Path, watcher: Watcher, sync: Callable[[int], None] | None = None) -> Iterator[None]:
    """All file calls below `folder` are seen by `watcher` in this block. `sync`: what is done in os.fsync."""
    places = _Places(folder)
    patched = _Patched(places, watcher)
    before = {name: getattr(os, name) for name in patched.NAMES}
    patched.real = before if sync is None else before | {"fsync": sync}
    for name in patched.NAMES:
        setattr(os, name, getattr(patched, name))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(os, name, function)


class _Places:
    """Which paths and descriptors are below the folder, and how they are called there."""

    def __init__(self, folder: Path) -> None:
        self._root = os.fspath(folder.resolve())
        self._below = f"{self._root}/"

    def of(self, path, dir_fd: int | None = None) -> str | None:
        text = os.fspath(path)
        if isinstance(text, bytes):
            text = os.fsdecode(text)
        if dir_fd is not None and not text.startswith("/"):
            text = f"{self._told(dir_fd)}/{text}"
        return self._relative(text)

    def of_descriptor(self, descriptor: int) -> str | None:
        return self._relative(self._told(descriptor))

    def _told(self, descriptor: int) -> str:
        try:
            return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115  # a text, not a path
        except OSError:
            return ""

    def _relative(self, text: str) -> str | None:
        if text == self._root:
            return "."
        if not text.startswith(self._below) or text.endswith(" (deleted)"):
            return None
        return text[len(self._below) :]


class _Patched:
    """In place of functions of `os`."""

    NAMES: Final = (
        "open",
        "write",
        "ftruncate",
        "fsync",
        "close",
        "fdopen",
        "replace",
        "rename",
        "unlink",
        "remove",
        "mkdir",
        "rmdir",
    )
    real: dict[str, Callable]

    def __init__(self, places: _Places, watcher: Watcher) -> None:
        self._places, self._watcher = places, watcher

    def open(self, path, flags, mode=0o777, *, dir_fd=None):
        def done():
            return self.real["open"](path, flags, mode, dir_fd=dir_fd)

        name = "open" if flags & WRITING else "look"
        return self._do(name, self._places.of(path, dir_fd), done, fresh=bool(flags & os.O_TRUNC))

    def write(self, descriptor, data):
        return self.written(descriptor, data, lambda some: self.real["write"](descriptor, some))

    def written(self, descriptor, data, done):
        """A write by whatever function."""
        if (path := self._places.of_descriptor(descriptor)) is None:
            return done(data)
        call = Call("write", path, data=bytes(data))
        most = self._watcher.before(call)
        some = call.data if most is None else call.data[:most]
        count = done(some)
        self._watcher.after(call if most is None else Call("write", path, data=some))
        return count

    def ftruncate(self, descriptor, size):
        def done():
            return self.real["ftruncate"](descriptor, size)

        return self._do("truncate", self._places.of_descriptor(descriptor), done, size=size)

    def fsync(self, descriptor):
        def done():
            return self.real["fsync"](descriptor)

        return self._do("fsync", self._places.of_descriptor(descriptor), done)

    def close(self, descriptor):
        return self.closed(descriptor, lambda: self.real["close"](descriptor))

    def closed(self, descriptor, done):
        """A close by whatever function: it closes, also where it fails."""
        if (path := self._places.of_descriptor(descriptor)) is None:
            return done()
        try:
            self._watcher.before(Call("close", path))
        finally:
            done()
        return self._watcher.after(Call("close", path))

    def fdopen(self, descriptor, mode="r", buffering=-1, *more, **options):
        if mode != "wb" or self._places.of_descriptor(descriptor) is None:
            return self.real["fdopen"](descriptor, mode, buffering, *more, **options)
        return io.BufferedWriter(_File(descriptor, self), buffering)

    def replace(self, old, new):
        def done():
            return self.real["replace"](old, new)

        return self._do("rename", self._places.of(old), done, to=self._places.of(new) or "")

    rename = replace

    def unlink(self, path, *, dir_fd=None):
        return self._do(
            "unlink", self._places.of(path, dir_fd), lambda: self.real["unlink"](path, dir_fd=dir_fd)
        )

    remove = unlink

    def mkdir(self, path, mode=0o777, *, dir_fd=None):
        def done():
            return self.real["mkdir"](path, mode, dir_fd=dir_fd)

        return self._do("mkdir", self._places.of(path, dir_fd), done)

    def rmdir(self, path, *, dir_fd=None):
        return self._do(
            "rmdir", self._places.of(path, dir_fd), lambda: self.real["rmdir"](path, dir_fd=dir_fd)
        )

    def _do(self, name, path, done, **more):
        if path is None:
            return done()
        call = Call(name, path, **more)
        self._watcher.before(call)
        told = done()
        self._watcher.after(call)
        return told


class _File(io.FileIO):
    """A file below a buffer, whose writes and end are seen as well."""

    def __init__(self, descriptor: int, patched: _Patched) -> None:
        super().__init__(descriptor, "wb")
        self._patched = patched

    def write(self, data):
        return self._patched.written(self.fileno(), data, super().write)

    def close(self):
        if not self.closed:
            self._patched.closed(self.fileno(), super().close)
