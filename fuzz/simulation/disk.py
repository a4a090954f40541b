"""What a disk keeps of what was written when the power goes: all that was synced, and of the rest anything.

Nothing is intercepted: at the sync of a file its bytes are remembered, at that of a folder its names. Names
that changed since then are each the old or the new one, whatever the order they changed in; bytes that came
since are there, missing, torn or zeros.
"""

import os
import random
import shutil
import stat
from pathlib import Path

from attrs import define, field


@define
class Disk:
    """That below `root`. `lasting` names what is nobody's promise and always kept."""

    root: Path
    lasting: frozenset[str] = frozenset()
    _files: dict[int, bytes] = field(factory=dict)  # synced, by inode
    _folders: dict[int, dict[str, int]] = field(factory=dict)

    def settle(self) -> None:
        """All that is there now is on the disk."""
        self._files, self._folders = {}, {}
        for folder, _, names in os.walk(self.root):
            self._remember(Path(folder), folder)
            for name in names:
                self._remember(Path(folder, name), Path(folder, name))

    def synced(self, descriptor: int) -> None:
        """In place of os.fsync."""
        self._remember(Path(f"/proc/self/fd/{descriptor}"), descriptor)

    def _remember(self, path: Path, place: int | str | Path) -> None:
        told = os.stat(place)  # noqa: PTH116  # of a descriptor, too
        if stat.S_ISDIR(told.st_mode):
            with os.scandir(place) as entries:
                self._folders[told.st_ino] = {entry.name: entry.inode() for entry in entries}
        else:
            self._files[told.st_ino] = path.read_bytes()

    def lose_power(self, dice: random.Random) -> None:
        """What the next boot finds, which is on the disk then."""
        cut = _Cut(self._files, self._folders, dice)
        cut.look(self.root)
        left = cut.folder(self.root.stat().st_ino, self.lasting)
        for entry in list(self.root.iterdir()):
            if entry.name not in self.lasting:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        _write(self.root, left)
        self.settle()


Tree = dict[str, "bytes | Tree"]


class _Cut:
    """One. How much of names and bytes is kept is thrown once: often all, or nothing."""

    def __init__(self, files: dict[int, bytes], folders: dict[int, dict[str, int]], dice: random.Random):
        self._files, self._folders, self._dice = files, folders, dice
        self._now: dict[int, bytes | dict[str, int]] = {}
        self._new_names = dice.choice((0.0, 0.5, 0.5, 1.0))
        self._new_bytes = dice.choice((0.0, 0.5, 1.0))

    def look(self, folder: Path) -> None:
        """See what the dead left in the page cache."""
        names = self._now[folder.stat().st_ino] = {}
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                names[entry.name] = entry.inode()
                if entry.is_dir(follow_symlinks=False):
                    self.look(Path(entry))
                else:
                    self._now[entry.inode()] = Path(entry).read_bytes()

    def folder(self, inode: int, without: frozenset[str] = frozenset()) -> Tree:
        old, now = self._folders.get(inode, {}), self._now.get(inode, {})
        assert isinstance(now, dict)
        left: Tree = {}
        for name in sorted((old.keys() | now.keys()) - without):
            is_new = name in now and (old.get(name) == now[name] or self._dice.random() < self._new_names)
            if name not in now:
                is_new = self._dice.random() < self._new_names
            if (there := (now if is_new else old).get(name)) is not None:
                left[name] = self.folder(there) if self._is_folder(there) else self._file(there)
        return left

    def _is_folder(self, inode: int) -> bool:
        return inode in self._folders or isinstance(self._now.get(inode), dict)

    def _file(self, inode: int) -> bytes:
        old, now = self._files.get(inode, b""), self._now.get(inode)
        if now == old or not isinstance(now, bytes):
            return old
        if not now.startswith(old):  # cut, or written over
            return now if self._dice.random() < self._new_bytes else old
        came = now[len(old) :]
        if self._dice.random() < self._new_bytes:
            return now
        cut, zeros = self._dice.randrange(len(came)), self._dice.choice((0, 0, len(came)))
        return old + came[:cut] + bytes(max(0, zeros - cut))


def _write(folder: Path, tree: Tree) -> None:
    for name, what in tree.items():
        place = folder / name
        if isinstance(what, bytes):
            place.write_bytes(what)
            place.chmod(0o600)
        else:
            place.mkdir(mode=0o700)
            _write(place, what)
