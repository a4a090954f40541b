"""A JSON Lines file in: which file, and its lines with their places.

Lines end at `\\n` only; a `\\r` before it is dropped. Blank lines are skipped. One byte order mark at the
very start is skipped. Gzip is recognised by its first bytes and read through all its members.
"""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from triocollect.errors import InputError

MAX_LINE_BYTES: Final = 1 << 30
MAX_UNPACKED_LINE_BYTES: Final = 1 << 28  # of a gzipped file: a few kilobytes could stand for any length
READ_BYTES: Final = 1 << 17  # a chunk, its rows and what becomes of them stay in the processor's cache
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_GZIP_MAGIC: Final = b"\x1f\x8b"


def locate(path: Path) -> Path:
    """Where a relative path is found first: NEMO_GYM_EXTRA_ROOTS in order, then the current directory.

    A path that is nowhere is given back under the first of them (the rule of Gym 0.7.0).
    """
    if path.is_absolute():
        return path
    roots = [Path(root) for root in os.environ.get("NEMO_GYM_EXTRA_ROOTS", "").split(os.pathsep) if root]
    places = [*(root / path for root in roots), path]
    return next((place for place in places if _is_there(place)), places[0])


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # who opens it is told why
        return False


class Source:
    """An input file, read once from its start.

    Raises InputError, naming line and byte where there is one, for a file that cannot be opened or read, a
    damaged gzip file, and a line over `MAX_LINE_BYTES` (`MAX_UNPACKED_LINE_BYTES` in a gzip file) or longer
    than the memory has room for.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = locate(path)
        self.had_byte_order_mark = False
        self.blank_lines = 0
        # Where the line is that `lines` gave last: physical, from 1, and its first byte, from 0. Places are
        # those of the unpacked text where the file is gzipped.
        self.line, self.offset = 1, 0

    def lines(self) -> Iterator[bytes]:
        """The lines that are not blank. Each ends in `\n` alone, or in nothing where the file does."""
        try:
            with self.path.open("rb", buffering=0) as file, _plain(file) as stream:
                packed = isinstance(stream.raw, gzip.GzipFile)
                yield from self._lines(stream, MAX_UNPACKED_LINE_BYTES if packed else MAX_LINE_BYTES)
        except FileNotFoundError:
            raise InputError("no such file; check --input", path=str(self.path)) from None
        except IsADirectoryError:
            raise InputError("a directory; --input takes one JSON Lines file", path=str(self.path)) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            damage = f"the gzip file is damaged or cut short ({error}); fetch it again"
            raise InputError(damage, path=str(self.path)) from None  # a packed file is damaged in no line
        except OSError as error:
            raise self._fault(f"cannot be read: {error.strerror or error}") from None

    def _lines(self, stream: io.BufferedReader, most: int) -> Iterator[bytes]:
        while text := self._next(stream, most):
            length = len(text)
            if length > most:
                raise self._fault(f"a line of more than {most} bytes; is this JSON Lines?")
            if self.line == 1 and text.startswith(_BYTE_ORDER_MARK):
                text, self.had_byte_order_mark = text.removeprefix(_BYTE_ORDER_MARK), True
            if text.isspace() or not text:
                self.blank_lines += 1
            elif text.endswith(b"\r\n"):
                yield text[:-2] + b"\n"
            else:
                yield text
            self.line += 1
            self.offset += length

    def _next(self, stream: io.BufferedReader, most: int) -> bytes:
        try:
            return stream.readline(most + 1)
        except MemoryError:
            raise self._fault("a line for which there is not enough memory; is this JSON Lines?") from None

    def _fault(self, message: str) -> InputError:
        return InputError(message, path=str(self.path), line=self.line, offset=self.offset)


def _plain(file: io.FileIO) -> io.BufferedReader:
    """The file itself, or what is packed in it."""
    stream: io.BufferedReader = io.BufferedReader(file, READ_BYTES)
    if stream.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
        return io.BufferedReader(gzip.GzipFile(fileobj=stream), READ_BYTES)
    return stream
