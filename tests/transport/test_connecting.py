"""Connections: how they are made, which are used again, and when they are given up."""

import socket

import httpx
import pytest
import trio
import trio.testing

from tests.transport.peer import OK, Memory, answering, peer, read_request
from triocollect.errors import NotSentError
from triocollect.transport import Transport


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_hosts_are_addresses_of_both_kinds_and_names(host: str) -> None:
    served = "127.0.0.1" if host == "localhost" else host
    try:
        socket.create_server((served, 0), family=socket.AF_INET6 if ":" in served else socket.AF_INET).close()
    except OSError:
        pytest.skip("no such address on this machine")
    async with peer(answering(OK), served) as url, Transport() as transport:
        assert (await transport.post(url.replace("127.0.0.1", host), b"{}")).body == b"ok"


async def test_proxies_in_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "::1,10.0.0.0/8,fe80::/10")
    async with peer(answering(OK)) as url, Transport() as transport:
        assert (await transport.post(url, b"{}")).body == b"ok"


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
