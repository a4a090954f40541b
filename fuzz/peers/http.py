"""A server on loopback that answers with bytes that no server should send: a table of faults.

Each is a function that has the stream, the request if it was read, and the body of a good answer; `endings`
says how a row may end that meets it: "result", "failed" (the server's own answer), "lost" (no answer).
"""

import contextlib
import gzip
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio
from attrs import frozen

Act: TypeAlias = Callable[[trio.SocketStream, bytes], Awaitable[None]]
RESULT, FAILED, LOST = "result", "failed", "lost"
NONE: Final = "none"  # what a server should do: no fault
MOST_REPLY_BYTES: Final = 4 << 20  # of the client under test
_FAR_TOO_MANY: Final = 64 << 20  # bytes of a reply
_DRIP_S: Final = 1.0  # a few fit into what anybody waits for an answer


@frozen
class Fault:
    """What a server does with one request. `reads`: it reads the whole of it first."""

    act: Act
    endings: frozenset[str]
    reads: bool = True


def head(status: object = "200 OK", *lines: str) -> bytes:
    """The first lines of a reply."""
    return "\r\n".join([f"HTTP/1.1 {status}", "content-type: application/json", *lines, "", ""]).encode()


def whole(body: bytes, status: object = "200 OK", *lines: str) -> bytes:
    """A reply that no client can mistake."""
    return head(status, f"content-length: {len(body)}", *lines) + body


def _says(make: Callable[[bytes], bytes], *endings: str, reads: bool = True, closes: bool = True) -> Fault:
    """It sends these bytes; then the connection closes, or goes on."""

    async def act(stream: trio.SocketStream, good: bytes) -> None:
        await stream.send_all(make(good))
        if closes:
            await stream.aclose()

    return Fault(act, frozenset(endings), reads)


async def reset(stream: trio.SocketStream) -> None:
    """Close it so that the other side hears of a reset."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


async def _close(stream: trio.SocketStream, good: bytes) -> None:
    await stream.aclose()


async def _reset(stream: trio.SocketStream, good: bytes) -> None:
    await reset(stream)


async def _reset_in_the_middle(stream: trio.SocketStream, good: bytes) -> None:
    await stream.send_all(whole(good)[: -len(good) // 2])
    await reset(stream)


async def _stall(stream: trio.SocketStream, good: bytes) -> None:
    await trio.sleep_forever()


async def _stall_in_the_middle(stream: trio.SocketStream, good: bytes) -> None:
    await stream.send_all(whole(good)[:-3])
    await trio.sleep_forever()


async def _drip(stream: trio.SocketStream, good: bytes) -> None:
    """Byte by byte; those in the middle are late."""
    reply = whole(good)
    for nth in range(len(reply)):
        await stream.send_all(reply[nth : nth + 1])
        await trio.sleep(_DRIP_S if nth == len(reply) // 2 else 0)


async def _drip_without_end(stream: trio.SocketStream, good: bytes) -> None:
    await stream.send_all(head("200 OK", "content-length: 1000000"))
    while True:
        await stream.send_all(b" ")
        await trio.sleep(_DRIP_S)


async def _without_end(stream: trio.SocketStream, piece: bytes) -> None:
    """More than anybody should take; then nothing: while bytes come no simulated time passes."""
    for _ in range(_FAR_TOO_MANY // len(piece)):
        await stream.send_all(piece)
    await trio.sleep_forever()


async def _endless_header(stream: trio.SocketStream, good: bytes) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\nx-padding: ")
    await _without_end(stream, b"x" * 4096)


async def _endless_headers(stream: trio.SocketStream, good: bytes) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\n")
    await _without_end(stream, b"x-more: of the same\r\n" * 50)


async def _endless_body(stream: trio.SocketStream, good: bytes) -> None:
    await stream.send_all(head("200 OK", "connection: close"))
    await _without_end(stream, b" " * 65536)


async def _endless_interim(stream: trio.SocketStream, good: bytes) -> None:
    await _without_end(stream, b"HTTP/1.1 100 Continue\r\n\r\n" * 20)


async def _kept_and_closed(stream: trio.SocketStream, good: bytes) -> None:
    """It promises to keep the connection, and closes it while the next request may be on its way."""
    await stream.send_all(whole(good, "200 OK", "connection: keep-alive"))
    await trio.sleep(_DRIP_S)
    await stream.aclose()


def _packed(body: bytes) -> bytes:
    return whole(gzip.compress(body, 1), "200 OK", "content-encoding: gzip")


_BOMB: Final = gzip.compress(b'{"x":"' + b"x" * (50 << 20) + b'"}', 6)
_NOISE: Final = random.Random(1).randbytes(2000)

FAULTS: Final[dict[str, Fault]] = {
    NONE: _says(whole, RESULT, closes=False),
    "closes at once": Fault(_close, frozenset({LOST}), reads=False),
    "resets at once": Fault(_reset, frozenset({LOST}), reads=False),
    "closes after the request": Fault(_close, frozenset({LOST})),
    "resets after the request": Fault(_reset, frozenset({LOST})),
    "resets in the middle": Fault(_reset_in_the_middle, frozenset({LOST})),
    "stalls": Fault(_stall, frozenset({LOST})),
    "stalls before reading": Fault(_stall, frozenset({LOST}), reads=False),
    "stalls in the middle": Fault(_stall_in_the_middle, frozenset({LOST})),
    "slow drip": Fault(_drip, frozenset({RESULT, LOST})),
    "slow drip without end": Fault(_drip_without_end, frozenset({LOST})),
    "endless header": Fault(_endless_header, frozenset({FAILED, LOST})),
    "endless headers": Fault(_endless_headers, frozenset({FAILED, LOST})),
    "endless body": Fault(_endless_body, frozenset({FAILED})),
    "endless 100": Fault(_endless_interim, frozenset({FAILED, LOST})),
    "kept and closed": Fault(_kept_and_closed, frozenset({RESULT})),
    "answers before reading": _says(whole, RESULT, LOST, reads=False),
    "short body": _says(lambda good: whole(good)[:-2], LOST),
    "no body": _says(lambda good: head("200 OK", "content-length: 9"), LOST),
    "empty body": _says(lambda good: whole(b""), FAILED),
    "length too small": _says(lambda good: head("200 OK", "content-length: 5") + good, FAILED),
    "length too large": _says(lambda good: head("200 OK", f"content-length: {len(good) + 9}") + good, LOST),
    "length of words": _says(lambda good: head("200 OK", "content-length: many") + good, FAILED, LOST),
    "length below zero": _says(lambda good: head("200 OK", "content-length: -1") + good, FAILED, LOST),
    "length beyond all": _says(
        lambda good: head("200 OK", "content-length: 99999999999999999999999") + good, FAILED, LOST
    ),
    "two lengths": _says(
        lambda good: head("200 OK", "content-length: 5", "content-length: 7") + good, FAILED, LOST
    ),
    "length and chunks": _says(
        lambda good: head("200 OK", "content-length: 5", "transfer-encoding: chunked") + good, FAILED, LOST
    ),
    "chunks": _says(
        lambda good: (
            head("200 OK", "transfer-encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(good), good)
        ),
        RESULT,
    ),
    "chunk nonsense": _says(
        lambda good: head("200 OK", "transfer-encoding: chunked") + b"zz\r\n" + good, FAILED, LOST
    ),
    "chunk without end": _says(
        lambda good: head("200 OK", "transfer-encoding: chunked") + b"%x\r\n%b\r\n" % (len(good), good), LOST
    ),
    "chunk beyond all": _says(
        lambda good: head("200 OK", "transfer-encoding: chunked") + b"f" * 40 + b"\r\n" + good, FAILED, LOST
    ),
    "strange transfer coding": _says(
        lambda good: head("200 OK", "transfer-encoding: gzip, identity") + good, RESULT, FAILED, LOST
    ),
    "500": _says(lambda good: whole(b'{"detail":"no"}', "500 Internal Server Error"), FAILED),
    "404": _says(lambda good: whole(b"Not Found", "404 Not Found"), FAILED),
    "302": _says(lambda good: whole(b"", "302 Found", "location: http://127.0.0.1:9/run"), FAILED),
    "429": _says(lambda good: whole(b"later", "429 Too Many Requests", "retry-after: 0"), LOST),
    "502 in HTML": _says(lambda good: whole(b"<html>bad gateway</html>", "502 Bad Gateway"), LOST),
    "503": _says(lambda good: whole(b"", "503 Service Unavailable", "retry-after: nonsense"), LOST),
    "HTML": _says(lambda good: whole(b"<!doctype html><title>login</title>"), FAILED),
    "204": _says(lambda good: head("204 No Content"), FAILED),
    "304": _says(lambda good: head("304 Not Modified"), FAILED),
    "101": _says(lambda good: head("101 Switching Protocols"), FAILED, LOST),
    "upgrade": _says(
        lambda good: head("101 Switching Protocols", "upgrade: websocket", "connection: upgrade") + _NOISE,
        FAILED,
        LOST,
    ),
    "100 continue": _says(lambda good: b"HTTP/1.1 100 Continue\r\n\r\n" + whole(good), RESULT),
    "103 hints": _says(lambda good: head("103 Early Hints", "link: </x>") + whole(good), RESULT),
    "two replies": _says(lambda good: whole(good) + whole(b'{"reward":-1}'), RESULT),
    "noise behind": _says(lambda good: whole(good) + _NOISE, RESULT),
    "noise": _says(lambda good: _NOISE, FAILED, LOST),
    "another protocol": _says(lambda good: b"SSH-2.0-OpenSSH_9.2\r\n", FAILED, LOST),
    "HTTP/0.9": _says(lambda good: good, FAILED, LOST),
    "HTTP/1.0": _says(lambda good: b"HTTP/1.0 200 OK\r\n\r\n" + good, RESULT),
    "HTTP/9.9": _says(lambda good: b"HTTP/9.9 200 OK\r\n\r\n" + good, RESULT, FAILED, LOST),
    "no reason": _says(
        lambda good: b"HTTP/1.1 200\r\ncontent-length: %d\r\n\r\n%b" % (len(good), good), RESULT
    ),
    "status beyond all": _says(lambda good: whole(good, "99999 OK"), FAILED, LOST),
    "status 999": _says(lambda good: whole(good, "999 OK"), FAILED, LOST),
    "bare newlines": _says(
        lambda good: b"HTTP/1.1 200 OK\ncontent-length: %d\n\n%b" % (len(good), good), RESULT, FAILED, LOST
    ),
    "NUL in a header": _says(lambda good: whole(good, "200 OK", "x-nul: a\0b"), RESULT, FAILED, LOST),
    "folded header": _says(lambda good: whole(good, "200 OK", "x-long: a", " b"), RESULT, FAILED, LOST),
    "gzip": _says(_packed, RESULT),
    "gzip of 50 MB": _says(lambda good: whole(_BOMB, "200 OK", "content-encoding: gzip"), FAILED),
    "gzip cut": _says(lambda good: _packed(good)[:-6], LOST),
    "gzip that is none": _says(lambda good: whole(good, "200 OK", "content-encoding: gzip"), FAILED),
    "gzip cut inside": _says(
        lambda good: whole(gzip.compress(good)[:-6], "200 OK", "content-encoding: gzip"), FAILED, LOST
    ),
    "unknown coding": _says(lambda good: whole(good, "200 OK", "content-encoding: rot13"), FAILED),
    "too large": _says(lambda good: whole(b" " * (MOST_REPLY_BYTES + 1)), FAILED),
    "NaN": _says(lambda good: whole(b'{"reward":NaN}'), FAILED),
    "nested without end": _says(lambda good: whole(b'{"a":' + b"[" * 100_000), FAILED),
    "half a surrogate pair": _says(lambda good: whole(b'{"a":"\\ud800"}'), FAILED),
    "bad UTF-8": _says(lambda good: whole(b'{"a":"\xff"}'), FAILED),
    "byte order mark": _says(lambda good: whole(b"\xef\xbb\xbf" + good), FAILED),
    "a list": _says(lambda good: whole(b"[]"), FAILED),
    "NULs": _says(lambda good: whole(bytes(100)), FAILED),
    "a huge number": _says(lambda good: whole(b'{"a":' + b"9" * 5000 + b"}"), FAILED),
}


async def read_request(stream: trio.SocketStream, before: bytes = b"") -> tuple[bytes, bytes, bytes]:
    """Head, body, and what came behind; empty when the other side has closed."""
    data = before
    while (end := data.find(b"\r\n\r\n")) < 0:
        piece = bytes(await stream.receive_some(65536))
        if not piece:
            return b"", b"", b""
        data += piece
    lines = data[:end].lower().split(b"\r\n")
    length = next((int(one.partition(b":")[2]) for one in lines if one.startswith(b"content-length:")), 0)
    data, first = data[end + 4 :], data[:end]
    while len(data) < length:
        piece = bytes(await stream.receive_some(65536))
        if not piece:
            return b"", b"", b""
        data += piece
    return first, data[:length], data[length:]


Choose: TypeAlias = Callable[[bytes, bytes], tuple[str, bytes]]


@frozen
class FaultyServer:
    """Answers each request with a fault. `at_once`: that of a connection whose request nobody reads.

    `choose` has head and body of a request, and says which fault it meets and what a good answer is.
    """

    choose: Choose
    at_once: Callable[[], str | None] = lambda: None

    async def serve(self, stream: trio.SocketStream) -> None:
        """The requests of one connection."""
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            async with stream:
                if (name := self.at_once()) is not None:
                    await FAULTS[name].act(stream, b"{}")
                    return
                behind = b""
                while True:
                    first, body, behind = await read_request(stream, behind)
                    if not first:
                        return
                    name, good = self.choose(first, body)
                    await FAULTS[name].act(stream, good)
