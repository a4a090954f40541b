"""The materialised file as it is written: rows in order, or round by round. Streams; keeps no row."""

import contextlib
import os
import tempfile
from array import array
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from triocollect.durable import Draft
from triocollect.errors import StorageError
from triocollect.protocol.values import JsonObject
from triocollect.rows.codec import encode_into

_WRITE_BYTES: Final = 1 << 17
_AT_END: Final = -1


class _Round(NamedTuple):
    offsets: "array[int]"
    lengths: "array[int]"


class Layout(Protocol):
    """Rows in, one line each."""

    def add(self, row: JsonObject, rollout: int) -> None:
        """The next row. It may be changed afterwards."""

    def finish(self) -> str:
        """Hex SHA-256 of the file's bytes, all of which the draft then has."""

    def close(self) -> None:
        """Let go of what is no part of the draft, finished or not."""


class InOrder:
    """All repeats of a row back to back: `aabbcc`."""

    def __init__(self, draft: Draft) -> None:
        self._draft, self._digest, self._buffer = draft, sha256(), bytearray()

    def add(self, row: JsonObject, rollout: int) -> None:  # noqa: ARG002  # see Layout
        buffer = self._buffer
        encode_into(row, buffer, _AT_END)
        buffer += b"\n"
        if len(buffer) >= _WRITE_BYTES:
            self._flush()

    def add_line(self, line: bytes) -> None:
        """A row that is written already, with its newline."""
        self._buffer += line
        if len(self._buffer) >= _WRITE_BYTES:
            self._flush()

    def finish(self) -> str:
        self._flush()
        return self._digest.hexdigest()

    def close(self) -> None:
        pass

    def _flush(self) -> None:
        self._digest.update(self._buffer)
        self._draft.write(bytes(self._buffer))
        self._buffer.clear()


class Interleaved:
    """Round by round: `abcabc`. Rows wait in a nameless file, which is gone with the process.

    The order is that of a stable sort by rollout index. Keeps 16 bytes per row.
    """

    def __init__(self, draft: Draft) -> None:
        self._in_order: Final = InOrder(draft)
        self._rounds: Final[dict[int, _Round]] = {}
        self._folder: Final = draft.path.parent
        self._buffer, self._written = bytearray(), 0
        with self._naming():
            self._spool: Final = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # see close

    def add(self, row: JsonObject, rollout: int) -> None:
        begin = len(self._buffer)
        encode_into(row, self._buffer, _AT_END)
        self._buffer += b"\n"
        if rollout not in self._rounds:
            self._rounds[rollout] = _Round(array("Q"), array("Q"))
        offsets, lengths = self._rounds[rollout]
        offsets.append(self._written + begin)
        lengths.append(len(self._buffer) - begin)
        if len(self._buffer) >= _WRITE_BYTES:
            self._flush()

    def finish(self) -> str:
        self._flush()
        with self._naming():
            for rollout in sorted(self._rounds):
                for offset, length in zip(*self._rounds[rollout], strict=True):
                    self._in_order.add_line(os.pread(self._spool.fileno(), length, offset))
        return self._in_order.finish()

    def close(self) -> None:
        self._spool.close()

    def _flush(self) -> None:
        with self._naming():
            view = memoryview(self._buffer)
            while view:
                view = view[self._spool.write(view) :]
            view.release()
        self._written += len(self._buffer)
        self._buffer.clear()

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"cannot sort the rows in {self._folder}: {error.strerror or error}", path=str(self._folder)
            ) from error
