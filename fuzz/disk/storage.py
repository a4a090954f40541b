"""What a disk was told, operation by operation, and what of it is sure to be there after a cut of the power.

Only what POSIX promises: a sync of a file brings its bytes, a sync of a folder the names in it, and nothing
else brings anything. A change of a name is there or not, a rename as a whole; so is one of several changes,
whatever order they were made in.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from attrs import define, field, frozen

from fuzz.disk.calls import Call

ROOT: Final = 0
ACKNOWLEDGED: Final = "acknowledged"  # a file at the top into which a run writes what is durable
TRASH: Final = ".trash-"


@frozen
class Write:
    """Bytes at the end of a file."""

    file: int
    data: bytes


@frozen
class Cut:
    """A file has so many bytes now."""

    file: int
    size: int


@frozen
class Names:
    """What bears these names in a folder now, None: nothing. `rubbish`: nobody reads what is below."""

    folder: int
    now: tuple[tuple[str, int | None], ...]
    rubbish: bool = False


@frozen
class Sync:
    """Of a file or a folder."""

    node: int


@frozen
class Fact:
    """What somebody was told at this point: a row is acknowledged, an attempt sent, LATEST moved."""

    what: str
    of: str


Operation: TypeAlias = Write | Cut | Names | Sync | Fact


@define
class Image:
    """Files and folders by number; the root is a folder."""

    files: dict[int, bytes] = field(factory=dict)
    folders: dict[int, dict[str, int]] = field(factory=lambda: {ROOT: {}})

    @classmethod
    def of(cls, root: Path, *, without: frozenset[str]) -> "Image":
        """What is on disk now; names at the top that are left out."""
        image = cls()
        for path, folders, files in os.walk(root):
            here = image.find(os.path.relpath(path, root))
            assert here is not None
            folders[:] = sorted(name for name in folders if here or name not in without)
            for name in folders:
                image.folders[image.new(here, name)] = {}
            for name in sorted(files):
                image.files[image.new(here, name)] = (Path(path) / name).read_bytes()
        return image

    def new(self, folder: int, name: str) -> int:
        """A number for what bears the name from now on."""
        number = self.folders[folder][name] = len(self.files) + len(self.folders)
        return number

    def find(self, path: str) -> int | None:
        """What is there; None for nothing."""
        here: int | None = ROOT
        for name in [] if path == "." else path.split("/"):
            here = None if here is None else self.folders.get(here, {}).get(name)
        return here


def walk(names: Mapping[int, Mapping[str, int]]) -> Iterator[tuple[str, int]]:
    """Every file and folder that these names of folders lead to, with its path; without the root."""
    waiting = [("", ROOT)]
    while waiting:
        above, folder = waiting.pop()
        for name, node in names[folder].items():
            yield f"{above}{name}", node
            if node in names:
                waiting.append((f"{above}{name}/", node))


class Recorder:
    """Writes down what is done below a folder, as `calls.watched` tells it."""

    def __init__(self, root: Path, *, without: frozenset[str] = frozenset()) -> None:
        """`without`: names at the top that are no files of ours."""
        self.base: Final = Image.of(root, without=without)
        self.log: Final[list[tuple[Operation, str]]] = []  # with the call in words
        self.stopped = False
        self._without = without
        self._now = Image(dict(self.base.files), {key: dict(one) for key, one in self.base.folders.items()})

    def fact(self, what: str, of: str) -> None:
        """Somebody was told this."""
        if not self.stopped:
            self.log.append((Fact(what, of), what))

    def before(self, _call: Call) -> None:
        """All is done as it is asked for."""

    def after(self, call: Call) -> None:
        if call.path == ACKNOWLEDGED and call.name == "write":
            for key in call.data.decode().splitlines():
                self.fact("acknowledged", key)
        if self.stopped or call.path.partition("/")[0] in self._without:
            return
        for operation in self._operations(call):
            self.log.append((operation, str(call)))

    def _operations(self, call: Call) -> Iterator[Operation]:
        now, (above, _, name) = self._now, call.path.rpartition("/")
        folder, node = now.find(above or "."), now.find(call.path)
        match call.name:
            case "open" if node is None and folder is not None:
                node = now.new(folder, name)
                now.files[node] = b""
                yield self._named(folder, above, {name: node})
            case "open" if call.fresh and node is not None and now.files[node]:
                now.files[node] = b""
                yield Cut(node, 0)
            case "write" if node is not None:
                now.files[node] += call.data
                yield Write(node, call.data)
            case "truncate" if node is not None:
                now.files[node] = now.files[node][: call.size]
                yield Cut(node, call.size)
            case "fsync" if node is not None:
                yield Sync(node)
            case "mkdir" if folder is not None:
                node = now.new(folder, name)
                now.folders[node] = {}
                yield self._named(folder, above, {name: node})
            case "unlink" | "rmdir" if folder is not None:
                del now.folders[folder][name]
                yield self._named(folder, above, {name: None})
            case "rename" if folder is not None and node is not None:
                beyond, _, other = call.to.rpartition("/")
                assert beyond == above, "no file of ours is moved to another folder"
                del now.folders[folder][name]
                now.folders[folder][other] = node
                yield self._named(folder, above, {name: None, other: node})
            case _:
                pass

    def _named(self, folder: int, above: str, now: Mapping[str, int | None]) -> Names:
        return Names(folder, tuple(now.items()), TRASH in above)

    @property
    def everything(self) -> Image:
        """All nodes there ever were, as they are now."""
        return self._now

    def bytes_of(self, path: str) -> bytes:
        """A file's, as everybody sees it now; none where it is not there."""
        node = self._now.find(path)
        return b"" if node is None else self._now.files[node]


class Disk:
    """What is sure to be there, and what may be, at one point of a log."""

    def __init__(self, base: Image, everything: Image) -> None:
        """`everything`: all nodes that the log will speak of."""
        self._everything = everything
        self.files: dict[int, bytes] = dict(base.files)
        self.folders: dict[int, dict[str, int]] = {key: dict(one) for key, one in base.folders.items()}
        self.shape = 0  # another one whenever the names that are sure change
        self.names: list[Names] = []  # not sure, in order
        self.data: dict[int, list[Write | Cut]] = {}  # likewise, by file

    def do(self, operation: Operation) -> None:
        """One more."""
        match operation:
            case Write(file=file) | Cut(file=file):
                self.data.setdefault(file, []).append(operation)
            case Names(now=now):
                for _, node in now:
                    if node in self._everything.folders:
                        self.folders.setdefault(node, {})
                    elif node is not None:
                        self.files.setdefault(node, b"")
                self.names.append(operation)
            case Sync(node=node) if node in self.folders:
                self.shape += 1
                for one in [one for one in self.names if one.folder == node]:
                    put(self.folders[node], one)
                self.names = [one for one in self.names if one.folder != node]
                self._forget()
            case Sync(node=node):
                self.files[node] = written(self.files[node], self.data.pop(node, []))
            case _:
                pass

    def _forget(self) -> None:
        """What no name can lead to any more does not matter."""
        reached, waiting = {ROOT}, [ROOT]
        more: dict[int, set[int]] = {}
        for one in self.names:
            more.setdefault(one.folder, set()).update(node for _, node in one.now if node is not None)
        while waiting:
            here = waiting.pop()
            below = {*self.folders.get(here, {}).values(), *more.get(here, ())} - reached
            reached |= below
            waiting += below
        self.names = [one for one in self.names if one.folder in reached]
        self.data = {file: changes for file, changes in self.data.items() if file in reached}


def put(folder: dict[str, int], names: Names) -> None:
    """A folder's names after a change."""
    for name, node in names.now:
        if node is None:
            folder.pop(name, None)
        else:
            folder[name] = node


def written(data: bytes, changes: list[Write | Cut]) -> bytes:
    """A file's bytes after changes."""
    for one in changes:
        data = data + one.data if isinstance(one, Write) else data[: one.size]
    return data
