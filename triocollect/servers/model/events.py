"""Server-sent events of a streamed response, from bytes. Pure."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

ENDINGS: Final = frozenset({"response.completed", "response.incomplete"})
NOTHING: Final = Raw(b"null")
FAULTS: Final = frozenset({"error", "response.failed"})


class StreamEvent(NamedTuple):
    """One event: its type, the Response object of those that carry one (else NOTHING), and its whole data."""

    type: str
    response: Raw
    data: bytes


class _Head(msgspec.Struct, frozen=True):
    type: str = ""
    response: Raw = NOTHING


class EventStream:
    """Takes the bytes as they come, in any pieces; gives whole events.

    Lines end in LF or CRLF and nothing else: JSON text may hold the other line separators of Unicode.
    `done`: the stream has said that it is over.
    """

    def __init__(self) -> None:
        self.done = False
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """Events that are whole now. Raises msgspec.MsgspecError for data that is not JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._line(line.removesuffix(b"\r"))

    def _line(self, line: bytes) -> Iterator[StreamEvent]:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif line.startswith(b"error:"):  # older servers of llama.cpp, in mid-stream
            yield StreamEvent("error", NOTHING, line[6:].strip())
        elif not line and self._data:
            text = b"\n".join(self._data)
            self._data = []
            if text.strip() == b"[DONE]":
                self.done = True
            elif text.strip():  # else it keeps the connection alive, and is no event
                head = msgspec.json.decode(text, type=_Head)
                yield StreamEvent(head.type, head.response, text)
