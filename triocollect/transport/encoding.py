"""Content encodings of replies: gzip and deflate, never larger than the reply may be."""

import zlib
from typing import Final, Protocol, final

from triocollect.errors import ReplyRefusedError

ACCEPTED: Final = b"gzip, deflate"
_GZIP: Final = (b"gzip", b"x-gzip")
_GZIP_BITS: Final = zlib.MAX_WBITS | 16
_RAW_BITS: Final = -zlib.MAX_WBITS
_ZLIB_HEADER_BYTES: Final = 2


class Inflate(Protocol):
    """What zlib.decompressobj returns; zlib does not export its type."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


@final
class Decoder:
    """Decodes one body piece by piece; stops at `limit` decoded bytes, so a bomb costs no memory.

    Raises ReplyRefusedError: `encoding` for one we cannot decode or for damage, `too_large` at the limit.
    """

    __slots__ = ("_begun", "_coding", "_inflate", "_limit", "_peer", "_size", "_start", "_status")

    def __init__(self, coding: bytes, *, limit: int, peer: str, status: int) -> None:
        self._coding, self._limit, self._peer, self._status = coding.strip().lower(), limit, peer, status
        self._size = 0
        self._begun = False
        self._start = b""
        self._inflate: Inflate | None = None  # deflate: its first bytes say which one it is
        if self._coding in _GZIP:
            self._inflate = zlib.decompressobj(_GZIP_BITS)
        elif self._coding != b"deflate":
            raise self._refusal("not an encoding we asked for (gzip or deflate)")

    def decode(self, piece: bytes) -> bytes:
        """What `piece` stands for. Members of gzip may follow one another (RFC 1952, 2.2)."""
        self._begun = True
        if self._inflate is None:
            self._start += piece
            if len(self._start) < _ZLIB_HEADER_BYTES:
                return b""
            self._inflate, piece = zlib.decompressobj(_deflate_bits(self._start)), self._start
        decoded = self._step(self._inflate, piece)
        while self._inflate.eof and self._inflate.unused_data and self._coding in _GZIP:
            rest = self._inflate.unused_data
            self._inflate = zlib.decompressobj(_GZIP_BITS)
            decoded += self._step(self._inflate, rest)
        return decoded

    def finish(self) -> None:
        """The body has ended. One that never began (an empty body) is fine, one cut short is not."""
        if self._begun and (self._inflate is None or not self._inflate.eof):
            raise self._refusal("the encoded data ends in the middle")

    def _step(self, inflate: Inflate, piece: bytes) -> bytes:
        try:
            decoded = inflate.decompress(piece, self._limit - self._size + 1)
        except zlib.error as damage:
            raise self._refusal(str(damage)) from None
        self._size += len(decoded)
        if self._size > self._limit:
            raise ReplyRefusedError(
                f"{self._peer}: the decoded reply is larger than {self._limit} bytes",
                kind="too_large",
                status=self._status,
            )
        return decoded

    def _refusal(self, why: str) -> ReplyRefusedError:
        coding = self._coding.decode("latin-1")
        return ReplyRefusedError(
            f"{self._peer}: content-encoding {coding}: {why}", kind="encoding", status=self._status
        )


def _deflate_bits(start: bytes) -> int:
    """ "deflate" means zlib, but some servers send the bare stream (RFC 9110, 8.4.1.2, note)."""
    is_zlib = start[0] & 15 == zlib.DEFLATED and int.from_bytes(start[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if is_zlib else _RAW_BITS
