"""The lines of a file that a crash may have left in any state, in bounded memory."""

from collections.abc import Iterator
from io import SEEK_END
from pathlib import Path
from typing import Final, Protocol

import msgspec

from triocollect.durable import open_file, unreadable

_LEAST_BYTES: Final = 1 << 12
_READ_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = (1 << 30) + (64 << 20)  # above the largest reply that can be asked for


class Line(msgspec.Struct):
    """One line that ended in a newline. `data` is without it; valid until the next line is asked for.

    `number` counts from 1, `offset` is the byte of its beginning. No data: too long to look at, or a hole
    of NULs.
    """

    number: int
    offset: int
    data: memoryview | None


class Lines:
    """Iterate once over the whole lines of a file. A missing file has none.

    One buffer is read into again and again: a scan costs no allocation per line, and neither a hole of NULs
    (an interrupted append leaves those) nor an endless line makes it grow past `max_line_bytes`. Afterwards
    `whole` is the offset behind the last newline, and `size` that of the end: between them lies a torn tail.
    """

    def __init__(self, path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.path: Final = path
        self.whole = self.size = 0
        self._max: Final = max_line_bytes
        self._buffer = bytearray()

    def __iter__(self) -> Iterator[Line]:
        """Raises StorageError where the file cannot be read."""
        try:
            with open_file(self.path) as file:
                size = file.seek(0, SEEK_END)
                file.seek(0)
                self._buffer = bytearray(max(_LEAST_BYTES, min(size, _READ_BYTES)))  # most files are small
                yield from self._lines(file.readinto)
        except FileNotFoundError:
            return
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _lines(self, readinto: "_ReadInto") -> Iterator[Line]:
        kept = dropped = number = 0  # bytes of an unfinished line: in the buffer, and thrown away
        while arrived := readinto(memoryview(self._buffer)[kept:]):
            self.size += arrived
            begin, end = 0, kept + arrived
            view = memoryview(self._buffer)
            while (newline := self._buffer.find(b"\n", begin, end)) >= 0:
                number += 1
                data = None if dropped else view[begin:newline]
                length = dropped + newline - begin + 1
                dropped = 0
                yield Line(number, self.whole, data)
                self.whole += length
                begin = newline + 1
            kept = end - begin
            self._buffer[:kept] = self._buffer[begin:end]
            if kept == len(self._buffer):
                if kept >= self._max or not self._buffer.strip(b"\0"):
                    dropped, kept = dropped + kept, 0
                else:
                    view.release()
                    self._buffer = self._buffer + bytearray(kept)


class _ReadInto(Protocol):
    """The type of a raw file's readinto."""

    def __call__(self, buffer: memoryview, /) -> int | None: ...
