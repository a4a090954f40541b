"""post() and get() against a peer on loopback."""

import gzip
import socket
import struct

import httpx
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


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_hosts_are_addresses_of_both_kinds_and_names(host: str) -> None:
    served = "127.0.0.1" if host == "localhost" else host
    try:
        socket.create_server((served, 0), family=socket.AF_INET6 if ":" in served else socket.AF_INET).close()
    except OSError:
        pytest.skip("no such address on this machine")
    async with peer(answering(OK), served) as url, Transport() as transport:
        assert (await transport.post(url.replace("127.0.0.1", host), b"{}")).body == b"ok"


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


async def test_proxies_in_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "::1,10.0.0.0/8,fe80::/10")
    async with peer(answering(OK)) as url, Transport() as transport:
        assert (await transport.post(url, b"{}")).body == b"ok"


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


async def test_a_server_that_closed_an_idle_connection_costs_nothing() -> None:
    async with peer(answering(OK)) as url, Transport() as transport:
        for _ in range(5):
            assert (await transport.post(url, b"{}")).body == b"ok"
            await trio.testing.wait_all_tasks_blocked(0.005)


async def test_a_connection_with_bytes_nobody_asked_for_is_not_used_again() -> None:
    timeout = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"

    async def script(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(OK)
        await trio.testing.wait_all_tasks_blocked(0.005)
        await stream.send_all(timeout)
        await trio.sleep_forever()

    async with peer(script) as url, Transport() as transport:
        assert (await transport.post(url, b"{}")).status == 200
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert (await transport.post(url, b"{}")).status == 200


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


async def test_nobody_listening_is_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    async with Transport() as transport:
        with pytest.raises(NotSentError, match=f"http://127.0.0.1:{port}: connection refused") as refused:
            await transport.post(f"http://127.0.0.1:{port}/", b"{}")
    assert refused.value.kind == "refused"


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (socket.gaierror(-2, "Name or service not known"), "dns"),
        (UnicodeError("label too long"), "dns"),
        (ConnectionRefusedError(111, "refused"), "refused"),
        (OSError(101, "Network is unreachable"), "unreachable"),
        (trio.BrokenResourceError(), "tls"),
    ],
)
async def test_a_connection_that_cannot_be_made_is_not_sent_and_says_why(
    failure: Exception, kind: str
) -> None:
    async def connect(*_: object) -> trio.abc.Stream:
        raise failure

    async with Transport(connect=connect) as transport:
        with pytest.raises(NotSentError, match="http://h:80: ") as refused:
            await transport.post("http://h/", b"{}")
    assert refused.value.kind == kind


@pytest.mark.usefixtures("autojump_clock")
async def test_a_connection_that_takes_too_long_is_not_sent() -> None:
    async def connect(*_: object) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    async with Transport(connect=connect, connect_timeout_s=10) as transport:
        with pytest.raises(NotSentError, match="no connection within 10 s") as late:
            await transport.post("http://h/", b"{}")
    assert (late.value.kind, trio.current_time()) == ("connect_timeout", 10)


@pytest.mark.usefixtures("autojump_clock")
async def test_an_idle_connection_is_given_up_well_before_servers_do() -> None:
    async with trio.open_nursery() as nursery:
        network = Memory(nursery, answering(OK, OK, OK, OK))
        async with Transport(connect=network.connect) as transport:
            for pause, connections in ((0, 1), (14, 1), (14, 1), (16, 2)):
                await trio.sleep(pause)
                await transport.post("http://h/", b"{}")
                assert len(network.connected) == connections
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("autojump_clock")
async def test_connections_that_a_burst_left_behind_are_closed_while_others_go_on() -> None:
    open_ends = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal open_ends
        open_ends += 1
        while await read_request(stream):
            await trio.sleep(1)
            await stream.send_all(OK)
        open_ends -= 1

    async with trio.open_nursery() as nursery:
        network = Memory(nursery, script)
        async with Transport(connect=network.connect) as transport:
            async with trio.open_nursery() as burst:
                for _ in range(50):
                    burst.start_soon(transport.post, "http://h/", b"{}")
            assert open_ends == 50
            for _ in range(20):
                await transport.post("http://h/", b"{}")
            assert open_ends == 1
        await trio.testing.wait_all_tasks_blocked()
        assert open_ends == 0
    assert len(network.connected) == 50


@pytest.mark.usefixtures("autojump_clock")
async def test_a_caller_may_bring_the_network_for_tls_too() -> None:
    async with trio.open_nursery() as nursery:
        network = Memory(nursery, answering(OK))
        async with Transport(connect=network.connect) as transport:
            assert (await transport.post("https://h/x", bytes(200_000))).body == b"ok"
        assert network.connected == [("h", 443, True)]


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


async def test_the_kernel_watches_over_long_waits() -> None:
    seen: list[int] = []
    transport = Transport()
    async with peer(answering(OK)) as url:
        await transport.post(url, b"{}")
        (idle,) = transport._idle.values()  # noqa: SLF001  # no other way to see socket options
        sock = idle._connections[0]._wire._socket  # noqa: SLF001
        seen = [
            sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
        ]
        await transport.aclose()
    assert seen == [1, 60, 10, 3, 1]


async def test_a_send_that_the_kernel_refuses_is_not_sent() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = Connection(SocketWire(ours), Origin("h", 80, tls=False), 1000)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(NotSentError) as refused:
            await connection.exchange(Message((b"head",)))
        assert refused.value.kind == "reset"
        await connection.close()


async def test_rows_wait_as_long_as_they_must_on_a_connection_that_httpx_used_before(autojump_clock) -> None:
    async def script(stream: trio.abc.Stream) -> None:
        while await read_request(stream):
            await stream.send_all(OK)
            await read_request(stream)
            await trio.sleep(3600)
            await stream.send_all(OK)

    async with trio.open_nursery() as nursery:
        network = Memory(nursery, script)
        transport = Transport(connect=network.connect)
        async with httpx.AsyncClient(transport=transport, timeout=5) as http:
            await http.get("http://h/")
            assert (await transport.post("http://h/", b"{}")).body == b"ok"
    assert len(network.connected) == 1
    assert autojump_clock.current_time() == 3600
