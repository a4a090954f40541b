"""What a reply is, whatever pieces it arrives in."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.errors import ReplyLostError, ReplyRefusedError
from triocollect.transport.reply import MAX_HEADER_BYTES, MAX_HEADERS, Reply, ReplyParser

BODY = b'{"reward": 1.0, "text": "' + b"abc" * 100 + b'"}'


def parse(
    *pieces: bytes, eof: bool = False, limit: int = 1 << 20, bodiless: bool = False
) -> tuple[Reply, bool]:
    parser = ReplyParser("http://peer:1", limit)
    parser.expect(bodiless=bodiless)
    for piece in pieces:
        if not parser.done:
            parser.feed(piece)
    if eof and not parser.done:
        parser.feed_eof()
    assert parser.done
    keep_alive = parser.keep_alive
    return parser.take_reply(), keep_alive


def with_body(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(body: bytes, size: int, *headers: bytes, trailer: bytes = b"") -> bytes:
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    lines = [b"HTTP/1.1 200 OK", *headers, b"Transfer-Encoding: chunked"]
    return (
        b"\r\n".join(lines)
        + b"\r\n\r\n"
        + b"".join(b"%x;ext=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        + b"0\r\n"
        + trailer
        + b"\r\n"
    )


WHOLE = {
    "with a length": with_body(BODY, b"Date: x", b"Date: y"),
    "chunked with a trailer": chunked(BODY, 7, b"Server: a", trailer=b"Checksum: 1\r\n"),
    "gzip": with_body(gzip.compress(BODY, mtime=0), b"Content-Encoding: gzip"),
    "gzip in two members": with_body(
        gzip.compress(BODY[:50], mtime=0) + gzip.compress(BODY[50:], mtime=0), b"Content-Encoding: x-gzip"
    ),
    "deflate, chunked": chunked(zlib.compress(BODY), 5, b"Content-Encoding: deflate"),
    "bare deflate": with_body(zlib.compress(BODY)[2:-4], b"Content-Encoding: deflate"),
    "after two informational replies": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
    + with_body(BODY, b"A: b"),
    "until the end of the connection": b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n" + BODY,
}


@pytest.mark.parametrize("how", WHOLE)
@given(data=st.data())
def test_a_reply_is_the_same_whatever_pieces_it_arrives_in(how: str, data: st.DataObject) -> None:
    wire = WHOLE[how]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=12)))
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True) if a < b]
    assert parse(*pieces, eof=True) == parse(wire, eof=True)
    assert parse(*pieces, eof=True)[0].body == BODY


def test_a_reply_that_arrives_byte_by_byte_is_whole() -> None:
    for wire in WHOLE.values():
        assert parse(*[wire[i : i + 1] for i in range(len(wire))], eof=True)[0].body == BODY


def test_doubled_headers_stay_doubled_and_names_are_lower_case() -> None:
    reply, _ = parse(with_body(b"", b"Date: 1", b"Date: 2", b"Set-Cookie: a", b"Set-Cookie: b", b"Empty:"))
    assert reply.headers == (
        (b"date", b"1"),
        (b"date", b"2"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"empty", b""),
        (b"content-length", b"0"),
    )
    assert reply.header(b"date") == b"1"
    assert reply.header(b"missing") is None


def test_trailers_are_not_taken_for_headers() -> None:
    reply, keep_alive = parse(WHOLE["chunked with a trailer"])
    assert reply.header(b"checksum") is None
    assert keep_alive


@pytest.mark.parametrize(
    ("wire", "kept"),
    [
        (with_body(b"x"), True),
        (with_body(b"x", b"Connection: close"), False),
        (with_body(b"x").replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (with_body(b"x", b"Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"), True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", True),
        (with_body(b"x") + with_body(b"another"), False),
        (with_body(b"x") + b"garbage", False),
        (with_body(b"x", b"Connection: close") + b"garbage", False),
    ],
)
def test_a_connection_is_kept_only_when_both_sides_stand_at_a_clean_end(wire: bytes, kept: object) -> None:
    reply, keep_alive = parse(wire)
    assert keep_alive is kept
    assert reply.body in (b"x", b"")


def test_a_reply_to_head_has_no_body_whatever_it_announces() -> None:
    reply, keep_alive = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", bodiless=True)
    assert (reply.status, reply.body, keep_alive) == (200, b"", False)
    reply, keep_alive = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", bodiless=True)
    assert (reply.body, keep_alive) == (b"", True)


def test_headers_of_informational_replies_are_not_those_of_the_reply() -> None:
    reply, keep_alive = parse(WHOLE["after two informational replies"])
    assert reply.headers == ((b"a", b"b"), (b"content-length", b"%d" % len(BODY)))
    assert keep_alive


def test_one_parser_reads_the_replies_of_a_connection_one_after_the_other() -> None:
    parser = ReplyParser("http://peer:1", 1 << 20)
    for wire in [*WHOLE.values()] * 2:
        if wire is WHOLE["until the end of the connection"]:
            continue
        parser.expect()
        parser.feed(wire)
        assert parser.done
        assert parser.keep_alive
        assert parser.take_reply().body == BODY


@pytest.mark.parametrize(
    ("wire", "kind", "status"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", "bad_http", None),
        (b"<html>hello</html>", "bad_http", None),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxx", "bad_http", 101),
        (b"HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n", "bad_http", 99),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "bad_http", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nxx", "bad_http", None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx", "bad_http", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "bad_http", 200),
        (with_body(b"x", b"Content-Encoding: br"), "encoding", 200),
        (with_body(b"x", b"Content-Encoding: gzip", b"Content-Encoding: gzip"), "encoding", 200),
        (with_body(b"not gzip at all", b"Content-Encoding: gzip"), "encoding", 200),
        (with_body(gzip.compress(BODY, mtime=0)[:-9], b"Content-Encoding: gzip"), "encoding", 200),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (MAX_HEADERS + 1) + b"\r\n", "too_large", 200),
        (b"HTTP/1.1 500 No\r\nA: " + b"b" * MAX_HEADER_BYTES + b"\r\n\r\n", "too_large", 500),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEADER_BYTES, "too_large", None),
        (b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" * 4000, "too_large", 100),
    ],
)
def test_what_is_not_a_reply_within_our_limits_is_refused_however_it_arrives(
    wire: bytes, kind: str, status: int | None
) -> None:
    for size in (len(wire), 1000):
        with pytest.raises(ReplyRefusedError) as refused:
            parse(*[wire[start : start + size] for start in range(0, len(wire), size)])
        assert refused.value.kind == kind
        assert refused.value.status in (status, None)
        assert str(refused.value).startswith("http://peer:1: ")


def test_trailers_and_chunk_extensions_without_end_are_cut_off() -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    for endless in (b"0\r\nA: " + b"b" * 1000, b"1;ext=" + b"e" * 1000):
        with pytest.raises(ReplyRefusedError, match="bytes of headers"):
            parse(start, endless, *[b"c" * 1000] * 100)


def test_a_body_longer_than_allowed_is_refused_before_it_is_read() -> None:
    with pytest.raises(ReplyRefusedError, match=r"\(1001 bytes\) is larger than 1000") as refused:
        parse(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", limit=1000)
    assert (refused.value.kind, refused.value.status) == ("too_large", 200)
    assert parse(with_body(b"x" * 1000), limit=1000)[0].body == b"x" * 1000
    with pytest.raises(ReplyRefusedError, match="is larger than 1000"):
        parse(chunked(b"x" * 1001, 100), limit=1000)
    with pytest.raises(ReplyRefusedError, match="is larger than 1000"):
        parse(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1001, limit=1000)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_bomb_stops_at_the_limit_of_the_decoded_body(pack) -> None:
    coding = b"Content-Encoding: " + (b"gzip" if pack is gzip.compress else b"deflate")
    bomb = with_body(pack(b"\0" * 20_000_000), coding)
    with pytest.raises(ReplyRefusedError, match="decoded reply is larger than 100000") as refused:
        parse(bomb, limit=100_000)
    assert refused.value.kind == "too_large"
    tracemalloc.start()
    with pytest.raises(ReplyRefusedError):
        parse(bomb, limit=100_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
    fits = with_body(pack(b"\0" * 100_000), coding)
    assert len(parse(fits, limit=100_000)[0].body) == 100_000


def test_an_encoded_reply_without_a_body_is_empty() -> None:
    assert parse(with_body(b"", b"Content-Encoding: gzip"))[0].body == b""
    assert parse(b"HTTP/1.1 204 No\r\nContent-Encoding: gzip\r\n\r\n")[0].body == b""


@pytest.mark.parametrize(
    ("wire", "kind", "words"),
    [
        (b"", "closed", "before it replied"),
        (b"HTTP/1.1 200 OK\r\nConte", "closed", "before it replied"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "closed", "before it replied"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "short_body", "after 5 of 10 bytes"),
        (chunked(BODY, 100)[:-5], "short_body", f"after {len(BODY)} bytes"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(BODY, mtime=0)[:-3],
            "short_body",
            "middle",
        ),
    ],
)
def test_a_reply_cut_short_is_lost(wire: bytes, kind: str, words: str) -> None:
    with pytest.raises(ReplyLostError, match=words) as lost:
        parse(*([wire] if wire else []), eof=True)
    assert lost.value.kind == kind
