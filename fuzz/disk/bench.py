"""One folder into which state after state is laid out; what is there already as it should be stays."""

import os
from pathlib import Path

from attrs import define, field


@define
class Bench:
    """`folder` is ours. What somebody did there in between is undone by the next state."""

    folder: Path
    _laid: dict[str, tuple[bytes, tuple[int, ...]]] = field(factory=dict)  # and what told it from others

    def lay(self, files: dict[str, bytes | None]) -> None:
        """These files and folders (None) and nothing else; a folder stands before what is in it."""
        there = self._there()
        for path in list(reversed(there)):
            if path not in files or (files[path] is None) != (there[path] is None):
                (os.rmdir if there.pop(path) is None else os.unlink)(f"{self.folder}/{path}")
        for path, data in files.items():
            if data is not None:
                if (data, there.get(path)) != self._laid.get(path):
                    self._write(path, data)
            elif path not in there:
                os.mkdir(f"{self.folder}/{path}")  # noqa: PTH102

    def _write(self, path: str, data: bytes) -> None:
        place = f"{self.folder}/{path}"
        with open(place, "wb") as file:  # noqa: PTH123
            file.write(data)
        self._laid[path] = data, _told(os.stat(place))  # noqa: PTH116

    def _there(self) -> dict[str, tuple[int, ...] | None]:
        """Folders before what is in them."""
        found: dict[str, tuple[int, ...] | None] = {}
        waiting = [""]
        while waiting:
            below = waiting.pop()
            with os.scandir(f"{self.folder}/{below}") as entries:
                for entry in entries:
                    path = below + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        found[path] = None
                        waiting.append(f"{path}/")
                    else:
                        found[path] = _told(entry.stat(follow_symlinks=False))
        return found


def _told(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns
