"""post() and get() against a peer on loopback."""

import gzip
import socket
import struct

import pytest
import trio
import trio.testing

from tests.transport.peer import OK, Memory, answering, peer, read_request
from triocollect.errors import NotSentError, ReplyLostError, ReplyRefusedError
from triocollect.transport import Transport
from triocollect.transport.connection import Connection, Message
from triocollect.transport.origin import Origin
from triocollect.transport.wire import SocketWire


async def test_a_row_goes_out_and_its_reply_comes_back_on_one_connection() -> None:
    heard: list[bytes] = []
    connections = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        while request := await read_request(stream):
            heard.append(request)
            await stream.send_all(OK)

    async with peer(script) as url, Transport() as transport:
        for number in range(3):
            reply = await transport.post(url, b'{"n": %d}' % number, [(b"x-row", b"%d-0" % number)])
            assert (reply.status, reply.body) == (200, b"ok")
        assert (await transport.get(url)).body == b"ok"
    assert connections == 1
    assert heard[1].startswith(b"POST /run HTTP/1.1\r\n")
    assert b"\r\nx-row: 1-0\r\n" in heard[1]
    assert heard[1].endswith(b'\r\n\r\n{"n": 1}')
    assert heard[3].startswith(b"GET /run HTTP/1.1\r\n")


async def test_redirects_cookies_and_server_errors_are_replies_like_any_other() -> None:
    heard: list[bytes] = []
    replies = iter(
        [
            b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops",
        ]
    )

    async def script(stream: trio.abc.Stream) -> None:
        while request := await read_request(stream):
            heard.append(request)
            await stream.send_all(next(replies))

    async with peer(script) as url, Transport() as transport:
        reply = await transport.post(url, b"{}")
        assert (reply.status, reply.header(b"location")) == (302, b"/elsewhere")
        reply = await transport.post(url, b"{}")
        assert (reply.status, reply.body) == (500, b"oops")
    assert len(heard) == 2
    assert b"cookie" not in heard[1].lower()


async def test_a_connection_closed_after_the_request_is_a_lost_reply_and_nothing_is_sent_twice() -> None:
    deliveries = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal deliveries
        while await read_request(stream):
            deliveries += 1
            if deliveries != 1:
                return
            await stream.send_all(OK)

    async with peer(script) as url, Transport() as transport:
        await transport.post(url, b"{}")
        with pytest.raises(ReplyLostError) as lost:  # on the connection that was kept
            await transport.post(url, b"{}")
        assert lost.value.kind == "closed"
        with pytest.raises(ReplyLostError):  # on a new one
            await transport.post(url, b"{}")
    assert deliveries == 3


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal"])
async def test_a_reset_connection_is_a_lost_reply(before: bytes) -> None:
    async def script(stream: trio.abc.Stream) -> None:
        assert isinstance(stream, trio.SocketStream)
        await read_request(stream)
        await stream.send_all(before) if before else None
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async with peer(script) as url, Transport() as transport:
        with pytest.raises(ReplyLostError) as lost:
            await transport.post(url, b"{}")
    assert lost.value.kind == "reset"


async def test_a_second_reply_in_one_read_is_not_taken_for_the_next_answer() -> None:
    first = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst"
    connections = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        await read_request(stream)
        await stream.send_all(first + OK)
        await trio.sleep_forever()

    async with peer(script) as url, Transport() as transport:
        assert (await transport.post(url, b"{}")).body == b"first"
        assert (await transport.post(url, b"{}")).body == b"first"
    assert connections == 2


async def test_bodies_without_a_length_end_with_the_connection() -> None:
    async with peer(answering(b"HTTP/1.1 200 OK\r\n\r\nall of it")) as url, Transport() as transport:
        assert (await transport.post(url, b"{}")).body == b"all of it"


@pytest.mark.parametrize("size", [100_000, 20_000_000])
async def test_large_bodies_go_out_and_come_back_whole(size: int) -> None:
    async def script(stream: trio.abc.Stream) -> None:
        request = await read_request(stream)
        body = gzip.compress(request.partition(b"\r\n\r\n")[2], 1)
        await stream.send_all(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        await stream.send_all(body)
        await trio.sleep_forever()

    body = bytes(range(256)) * (size // 256)
    async with peer(script) as url, Transport() as transport:
        assert (await transport.post(url, body)).body == body


@pytest.mark.parametrize("closes", [True, False])
async def test_an_early_answer_to_a_large_body_is_read_though_the_body_never_is(closes: object) -> None:
    early = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"
    connections = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        await stream.receive_some(1000)
        await stream.send_all(early)
        if not closes:
            await trio.sleep_forever()
        with trio.move_on_after(0.05):  # let the answer arrive before the reset does
            await trio.sleep_forever()

    async with peer(script) as url, Transport() as transport:
        for _ in range(2):
            reply = await transport.post(url, bytes(30_000_000))
            assert (reply.status, reply.body) == (413, b"big")
    assert connections == 2


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", "too_large"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(5_000_000)), "too_large"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "bad_http"),
        (b"220 smtp.example.org ESMTP\r\n", "bad_http"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\nContent-Length: 1\r\n\r\nx", "encoding"),
    ],
)
async def test_a_refused_reply_ends_its_connection_and_nothing_else(reply: bytes, kind: str) -> None:
    replies = iter([reply, OK])

    async def script(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(next(replies))
        await read_request(stream)

    async with peer(script) as url, Transport(max_reply_bytes=1000) as transport:
        with pytest.raises(ReplyRefusedError) as refused:
            await transport.post(url, b"{}")
        assert refused.value.kind == kind
        assert (await transport.post(url, b"{}")).body == b"ok"


@pytest.mark.usefixtures("autojump_clock")
async def test_a_stream_that_breaks_is_a_lost_reply() -> None:
    async with trio.open_nursery() as nursery:
        network = Memory(nursery, answering())
        async with Transport(connect=network.connect) as transport:
            for size in (10, 200_000):
                with pytest.raises(ReplyLostError) as lost:
                    await transport.post("http://h/", bytes(size))
                assert lost.value.kind in ("closed", "reset")


async def test_a_closed_transport_sends_nothing_more() -> None:
    async with peer(answering(OK)) as url:
        async with Transport() as transport:
            await transport.post(url, b"{}")
        with pytest.raises(NotSentError) as shut:
            await transport.post(url, b"{}")
        assert shut.value.kind == "shut"


async def test_an_exchange_under_way_when_the_transport_closes_ends_well_and_leaves_nothing_open() -> None:
    go_on = trio.Event()
    closed = trio.Event()

    async def script(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await go_on.wait()
        await stream.send_all(OK)
        assert not await read_request(stream)
        closed.set()

    async with peer(script) as url:
        transport = Transport()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.post, url, b"{}")
            await trio.testing.wait_all_tasks_blocked(0.01)
            await transport.aclose()
            go_on.set()
        with trio.fail_after(5):
            await closed.wait()


async def test_a_send_that_the_kernel_refuses_is_not_sent() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = Connection(SocketWire(ours), Origin("h", 80, tls=False), 1000)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(NotSentError) as refused:
            await connection.exchange(Message((b"head",)))
        assert refused.value.kind == "reset"
        await connection.close()
