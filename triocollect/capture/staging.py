"""Cuts of generations on disk: packs below the checkpoint directory, named by their content.

    staging/<sha256>.jsonl      one StagedCut a line; a cut is named `<sha256>:<line>`

One pack holds all that one worker or one model server stages at one checkpoint, so that a thousand calls
cost one sync of a file and one of the folder. A pack is whole and durable before anybody is told a key of it,
and is never changed. A cut that cannot be read back is not an error of a restore: its call is generated
again.

Whoever makes cuts calls `stage`, once per checkpoint, and hands the keys out in a `Receipt`; whoever
continues one calls `fetch`. Both block: call them in a thread.
"""

import hashlib
import io
import secrets
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from triocollect import durable
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.inference import StagedCut, key_of, parts_of
from triocollect.protocol.values import NOT_JSON

STAGING: Final = "staging"  # the folder's name in a checkpoint directory
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

_PLACES: Final = 8  # packs whose lines are known
_AT_HAND: Final = 64 << 20  # bytes of the pack that was read last, so that a thousand cuts of it are one read
_BUFFER_BYTES: Final = 1 << 20
_DIGEST_BYTES: Final = 16


class _Place(NamedTuple):
    """Where a line of a pack is, and what its bytes are known by: a pack is read whole but once."""

    begin: int
    end: int
    digest: bytes


class Staging:
    """The packs of one folder, which is made with the first pack; the folder it is in must be there."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._lines: Final[dict[str, list[_Place]]] = {}  # of packs that were read whole
        self._at_hand: tuple[str, bytes] = ("", b"")
        self._reading: Final = threading.Lock()  # so that of many who ask at once one reads a pack whole

    def stage(self, cuts: Iterable[StagedCut]) -> tuple[str, ...]:
        """Make these durable, in one pack; their keys, in their order. Raises StorageError."""
        lines = [_line(cut) for cut in cuts]
        if not lines:
            return ()
        self._make()
        pack = hashlib.sha256(b"".join(lines)).hexdigest()
        # A name of its own: several processes may stage at once.
        draft = durable.Draft(self.folder / secrets.token_hex(8), mode=FILE_MODE)
        try:
            for line in lines:
                draft.write(line)
            draft.commit(name_of(pack))
        finally:
            draft.discard()
        return tuple(key_of(pack, number) for number in range(len(lines)))

    def fetch(self, key: str) -> StagedCut:
        """The cut of this key.

        Raises DamageError, in words, for one that is not there or not as it was staged.
        """
        try:
            pack, number = parts_of(key)
            with self._reading:
                places = self._places(pack)
                if number >= len(places):
                    raise DamageError(f"pack {pack} of staged cuts has {len(places)} lines, none for {key}")
                line = self._read(pack, places[number])
            cut = msgspec.json.decode(line, type=StagedCut)
        except OSError as error:
            raise DamageError(f"staged cut {key} cannot be read: {error.strerror or error}") from error
        except (ValueError, *NOT_JSON) as error:
            raise DamageError(f"staged cut {key} cannot be understood: {error}") from error
        if (fault := cut.fault) is not None:
            raise DamageError(f"staged cut {key} cannot be continued: {fault}")
        return cut

    def _read(self, pack: str, place: _Place) -> bytes:
        """Raises OSError, and DamageError for what has changed since the pack was read whole."""
        at_hand, data = self._at_hand
        if at_hand == pack:
            return data[place.begin : place.end]
        with durable.open_file(self.folder / name_of(pack)) as file:
            file.seek(place.begin)
            line = file.read(place.end - place.begin)
        if _digest(line) != place.digest:
            raise _changed(pack)
        return line

    def _places(self, pack: str) -> list[_Place]:
        """Of each line, in their order. Raises OSError, DamageError."""
        if (known := self._lines.get(pack)) is None:
            known = self._lines[pack] = self._read_whole(pack)
            if len(self._lines) > _PLACES:
                del self._lines[next(iter(self._lines))]
        return known

    def _read_whole(self, pack: str) -> list[_Place]:
        """Raises OSError, DamageError. Never has all of a large one in memory."""
        places, lines, whole, end = list[_Place](), list[bytes](), hashlib.sha256(), 0
        with io.BufferedReader(durable.open_file(self.folder / name_of(pack)), _BUFFER_BYTES) as file:
            for line in file:
                whole.update(line)
                begin, end = end, end + len(line)
                places.append(_Place(begin, end, _digest(line)))
                if end <= _AT_HAND:
                    lines.append(line)
        if whole.hexdigest() != pack:
            raise _changed(pack)
        if end <= _AT_HAND:
            self._at_hand = pack, b"".join(lines)
        return places

    def _make(self) -> None:
        if self.folder.is_dir():
            return
        if not self.folder.parent.is_dir():
            raise StorageError(
                f"{self.folder.parent} is not there: whoever cuts has to see the checkpoint directory",
                path=str(self.folder.parent),
            )
        durable.have_folder(self.folder, mode=FOLDER_MODE)


def name_of(pack: str) -> str:
    """The file of a pack."""
    return f"{pack}.jsonl"


def packs_of(keys: Iterable[str]) -> tuple[str, ...]:
    """The packs that these keys lead to, each once, in the order of their names. Raises ValueError."""
    return tuple(sorted({parts_of(key)[0] for key in keys}))


def _line(cut: StagedCut) -> bytes:
    text = msgspec.json.encode(cut)
    if b"\n" in text:  # a response of somebody else's, as it came
        text = msgspec.json.format(text, indent=-1)
    return text + b"\n"


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=_DIGEST_BYTES).digest()


def _changed(pack: str) -> DamageError:
    return DamageError(f"pack {pack} of staged cuts is not what was written: its digest differs")
