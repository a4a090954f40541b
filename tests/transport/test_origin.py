"""Where a request goes and how its head reads."""

import pytest

from triocollect import __version__
from triocollect.errors import NotSentError
from triocollect.transport.origin import Destination


def head(url: str, *headers: tuple[bytes, bytes], method: bytes = b"POST") -> list[bytes]:
    written = Destination(url).head(method, headers, 3 if method == b"POST" else None)
    assert written.endswith(b"\r\n\r\n")
    return written[:-4].split(b"\r\n")


def test_the_head_of_a_post_says_all_that_a_server_needs() -> None:
    assert head("http://127.0.0.1:8000/run?x=1", (b"x-continued", b"1")) == [
        b"POST /run?x=1 HTTP/1.1",
        b"host: 127.0.0.1:8000",
        b"user-agent: triocollect/" + __version__.encode(),
        b"accept: */*",
        b"accept-encoding: gzip, deflate",
        b"content-type: application/json",
        b"x-continued: 1",
        b"content-length: 3",
    ]


@pytest.mark.parametrize(
    ("url", "host", "origin"),
    [
        ("http://example.org", b"example.org", ("example.org", 80, False)),
        ("http://example.org:80/a", b"example.org", ("example.org", 80, False)),
        ("https://example.org/a", b"example.org", ("example.org", 443, True)),
        ("https://example.org:8443/a", b"example.org:8443", ("example.org", 8443, True)),
        ("http://[::1]:9000/a", b"[::1]:9000", ("::1", 9000, False)),
        ("http://bücher.example/a", b"xn--bcher-kva.example", ("xn--bcher-kva.example", 80, False)),
    ],
)
def test_host_and_port_are_told_as_the_server_knows_them(url: str, host: bytes, origin: object) -> None:
    assert b"host: " + host in head(url)
    assert Destination(url).origin == origin


def test_a_path_is_never_empty_and_a_fragment_is_not_sent() -> None:
    assert head("http://h", method=b"GET")[0] == b"GET / HTTP/1.1"
    assert head("http://h/a b#c", method=b"GET")[0] == b"GET /a%20b HTTP/1.1"


def test_a_caller_may_replace_a_default_but_not_the_framing() -> None:
    lines = head("http://h/", (b"Content-Type", b"text/plain"), (b"User-Agent", b"me"))
    assert b"Content-Type: text/plain" in lines
    assert not [line for line in lines if line.startswith((b"content-type", b"user-agent"))]
    with pytest.raises(NotSentError, match="transport's own"):
        head("http://h/", (b"Content-Length", b"7"))


def test_the_same_shape_of_headers_with_other_values_says_the_other_values() -> None:
    target = Destination("http://h/")
    assert b"a: 1\r\n" in target.head(b"POST", [(b"a", b"1")], 0)
    assert b"a: 2\r\n" in target.head(b"POST", [(b"a", b"2")], 0)
    assert b"a:" not in target.head(b"POST", [(b"b", b"2")], 0)
    assert target.head(b"GET", [(b"a", b"1")], None).startswith(b"GET ")


@pytest.mark.parametrize(
    "header",
    [
        (b"a", b"1\r\nb: 2"),
        (b"a", b"1\n"),
        (b"a", b"1\rb: 2"),
        (b"a", b"\0"),
        (b"a\r\nb", b"1"),
        (b"", b"1"),
        (b"a b", b"1"),
    ],
)
def test_a_header_cannot_smuggle_in_another_line(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(NotSentError) as refused:
        head("http://h/", header)
    assert refused.value.kind == "bad_request"


@pytest.mark.parametrize(
    "url", ["ftp://h/", "h:80/x", "", "http://", "http://h:99999/", "http://u:p@h/", "http://h\0/"]
)
def test_a_url_that_cannot_be_used_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(NotSentError) as refused:
        Destination(url)
    assert refused.value.kind == "bad_url"
