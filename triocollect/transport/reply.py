"""What comes back: the reply as a value, and the parser that makes it from bytes. No I/O."""

from typing import Final, final

import httptools
import msgspec

from triocollect.errors import ReplyLostError, ReplyRefusedError
from triocollect.transport.encoding import Decoder

MAX_HEADER_BYTES: Final = 64 << 10
MAX_HEADERS: Final = 256
_FIRST_STATUS: Final = 100
_FIRST_FINAL_STATUS: Final = 200
_BODILESS: Final = (204, 304)


class Reply(msgspec.Struct, frozen=True):
    """A whole reply. Names of headers are lower-case, doubled headers stay; the body is decoded."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header; `name` in lower case."""
        for known, value in self.headers:
            if known == name:
                return value
        return None


class _SurplusError(Exception):
    """More bytes than the one reply that was asked for."""


@final
class ReplyParser:
    """Reads the replies of one connection, one after the other; `expect` first, then `feed` until `done`.

    Raises ReplyRefusedError for what breaks a limit or is not HTTP/1.1, ReplyLostError from `feed_eof`.
    After either the parser is of no use any more, and neither is its connection.
    """

    __slots__ = (
        "_bodiless", "_coding", "_decode", "_decoder", "_header_bytes", "_length", "_limit",
        "_odd", "_parser", "_peer", "_quiet_bytes", "_size", "_until_eof", "done", "head_done",
        "headers", "keep_alive", "pieces", "status",
    )  # fmt: skip

    def __init__(self, peer: str, limit: int) -> None:
        self._peer, self._limit = peer, limit
        self._parser = httptools.HttpResponseParser(self)
        self.expect()

    def expect(self, *, decode: bool = True, bodiless: bool = False) -> None:
        """Get ready for the next reply; `bodiless` when it answers a HEAD."""
        self._decode, self._bodiless = decode, bodiless
        self._decoder: Decoder | None = None
        self._coding: bytes | None = None
        self._length: int | None = None
        self._until_eof = True
        self._header_bytes = self._size = self._quiet_bytes = 0
        self._odd: str | None = None
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []
        self.head_done = self.done = self.keep_alive = False

    def feed(self, data: bytes) -> None:
        """Take in bytes as they arrived, in any pieces."""
        size, head_done, known = self._size, self.head_done, len(self.pieces)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise self._refused("switched protocols without being asked to", 101) from None
        except httptools.HttpParserError as problem:
            if not self.done:
                raise self._refused(f"the reply is not HTTP/1.1: {problem}", self.status) from None
            self.keep_alive = False
        # Headers, trailers and chunk extensions have no end of their own: only so much of them at a stretch.
        progress = self._size > size or self.head_done is not head_done
        self._quiet_bytes = 0 if progress else self._quiet_bytes + len(data)
        self._judge_head()
        if self.head_done:
            self._judge_body(known)

    def feed_eof(self) -> None:
        """The peer closed its side. The end of a body without a length, a lost reply otherwise."""
        if not self.head_done:
            raise ReplyLostError(f"{self._peer} closed the connection before it replied", kind="closed")
        if not self._until_eof:
            of = "" if self._length is None else f" of {self._length}"
            raise ReplyLostError(
                f"{self._peer} closed the connection after {self._size}{of} bytes of the reply",
                kind="short_body",
            )
        if self._decoder is not None:
            try:
                self._decoder.finish()
            except ReplyRefusedError as cut:
                raise ReplyLostError(str(cut), kind="short_body") from None
        self.done, self.keep_alive = True, False

    def take_reply(self) -> Reply:
        """The reply that is done. The parser keeps nothing of it."""
        reply = Reply(self.status, tuple(self.headers), b"".join(self.pieces))
        self.forget()
        return reply

    def take_body(self) -> bytes:
        """What arrived of the body since the last call."""
        pieces, self.pieces = self.pieces, []
        return b"".join(pieces)

    def forget(self) -> None:
        """Let go of what arrived: a parser and httptools hold each other until a garbage collection."""
        self.headers, self.pieces, self._decoder = [], [], None

    # What httptools calls. A second reply in the same read must not overwrite the first, and
    # `should_keep_alive` is right only inside `on_message_complete`.

    def on_message_begin(self) -> None:
        if self.done:
            raise _SurplusError

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if not self.head_done:  # trailers are counted and dropped
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < _FIRST_FINAL_STATUS:  # 100, 103: the reply proper is still to come
            if self.status < _FIRST_STATUS:
                self._odd = f"{self.status} is not a status"
            return
        self.head_done = True
        for name, value in self.headers:
            if name == b"content-length":
                self._length = int(value)
                self._until_eof = False
            elif name == b"transfer-encoding":
                self._until_eof = False
                if value.strip().lower() != b"chunked":
                    self._odd = f"transfer-encoding {value.decode('latin-1')}: only chunked is known"
            elif name == b"content-encoding" and value.strip().lower() != b"identity":
                self._coding = value if self._coding is None else self._coding + b", " + value

    def on_body(self, piece: bytes) -> None:
        self._size += len(piece)
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        if self.head_done:
            self.done = True
            self.keep_alive = self._parser.should_keep_alive()
        else:
            self.headers.clear()

    def _judge_head(self) -> None:
        """Limits, after each read: a read is bounded, so nothing grows far beyond them in between."""
        if self._header_bytes > MAX_HEADER_BYTES or self._quiet_bytes > MAX_HEADER_BYTES:
            raise self._refused(f"more than {MAX_HEADER_BYTES} bytes of headers", kind="too_large")
        if len(self.headers) > MAX_HEADERS:
            raise self._refused(f"more than {MAX_HEADERS} headers", kind="too_large")
        if self._odd is not None:
            raise self._refused(self._odd)

    def _judge_body(self, known: int) -> None:
        """`known` pieces were there before this read."""
        if self._bodiless:
            self.pieces.clear()
            if not self.done:  # the parser waits for the announced body: not a connection to keep
                self.done, self.keep_alive = True, False
            return
        if max(self._size, 0 if self.status in _BODILESS else self._length or 0) > self._limit:
            length = "" if self._length is None else f" ({self._length} bytes)"
            raise self._refused(f"the reply{length} is larger than {self._limit} bytes", kind="too_large")
        if self._coding is not None and self._decode and len(self.pieces) > known:
            if self._decoder is None:
                self._decoder = Decoder(self._coding, limit=self._limit, peer=self._peer, status=self.status)
            self.pieces[known:] = [self._decoder.decode(piece) for piece in self.pieces[known:]]
        if self.done and self._decoder is not None:
            self._decoder.finish()

    def _refused(self, why: str, status: int | None = None, *, kind: str = "bad_http") -> ReplyRefusedError:
        return ReplyRefusedError(f"{self._peer}: {why}", kind=kind, status=status or self.status or None)
