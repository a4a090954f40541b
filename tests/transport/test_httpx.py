"""The transport under an httpx client."""

import gzip
from collections.abc import AsyncIterator

import httpx
import pytest
import trio
import trio.testing

from tests.transport.peer import OK, Memory, Script, answering, peer, read_request
from triocollect.transport import Transport


def client(transport: Transport, **settings) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, trust_env=False, **settings)


async def test_a_client_posts_and_reads_as_it_is_used_to() -> None:
    body = gzip.compress(b'{"a": 1}')
    reply = (
        b"HTTP/1.1 201 Made\r\nContent-Encoding: gzip\r\nSet-Cookie: a=b\r\nContent-Length: %d\r\n\r\n"
        % len(body)
    )
    heard: list[bytes] = []
    connections = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        while request := await read_request(stream):
            heard.append(request)
            await stream.send_all(reply + body)

    async with peer(script) as url, client(Transport()) as http:
        for _ in range(3):
            response = await http.post(url, json={"x": 1}, headers={"x-row": "0-0"})
            assert (response.status_code, response.json()) == (201, {"a": 1})
            assert response.http_version == "HTTP/1.1"
    assert connections == 1
    assert heard[0].endswith(b'{"x":1}')
    assert b"x-row: 0-0" in heard[0]


async def test_bodies_are_streamed_out_in_chunks() -> None:
    heard: list[bytes] = []

    async def script(stream: trio.abc.Stream) -> None:
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            data += await stream.receive_some(65536)
        heard.append(data)
        await stream.send_all(OK)
        await read_request(stream)

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"three" * 5):
            await trio.lowlevel.checkpoint()
            yield piece

    async with peer(script) as url, client(Transport()) as http:
        assert (await http.post(url, content=pieces())).text == "ok"
    head, _, sent = heard[0].partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    assert sent == b"3\r\none\r\n19\r\n" + b"three" * 5 + b"\r\n0\r\n\r\n"


async def test_replies_are_streamed_in_as_they_come_and_the_connection_is_kept_after_the_end() -> None:
    go_on = trio.Event()
    connections = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        while await read_request(stream):
            await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata 1\r\n")
            await go_on.wait()
            await stream.send_all(b"6\r\ndata 2\r\n0\r\n\r\n")

    async with peer(script) as url, client(Transport()) as http:
        for _ in range(2):
            async with http.stream("GET", url) as response:
                pieces = response.aiter_raw()
                assert await anext(pieces) == b"data 1"
                go_on.set()
                assert [piece async for piece in pieces] == [b"data 2"]
    assert connections == 1


async def test_a_response_closed_early_closes_its_connection() -> None:
    gone = trio.Event()

    async def script(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n")
        assert not await read_request(stream)
        gone.set()

    async with peer(script) as url, Transport() as transport:
        response = await transport.handle_async_request(httpx.Request("GET", url))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        pieces = aiter(response.stream)
        assert await anext(pieces) == b"data"
        await response.aclose()
        with trio.fail_after(5):
            await gone.wait()
        with pytest.raises(httpx.StreamClosed):
            await anext(pieces)


async def test_a_response_cancelled_in_the_middle_closes_its_connection() -> None:
    gone = trio.Event()

    async def script(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n")
        assert not await read_request(stream)
        gone.set()

    async with peer(script) as url, client(Transport(), timeout=None) as http:
        with trio.CancelScope() as scope:
            async with http.stream("GET", url) as response:
                async for _ in response.aiter_raw():
                    scope.cancel()
        with trio.fail_after(5):
            await gone.wait()


async def test_a_cancelled_read_of_a_body_closes_the_connection_without_waiting_for_its_reader() -> None:
    gone = trio.Event()

    async def script(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert not await read_request(stream)
        gone.set()

    async with peer(script) as url, Transport() as transport:
        response = await transport.handle_async_request(httpx.Request("GET", url))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(aiter(response.stream))
        assert scope.cancelled_caught
        with trio.fail_after(5):
            await gone.wait()


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n"),
    ],
)
async def test_replies_without_a_body_end_with_their_head(method: str, reply: bytes) -> None:
    async def script(stream: trio.abc.Stream) -> None:
        while await read_request(stream):
            await stream.send_all(reply)

    async with peer(script) as url, client(Transport()) as http:
        for _ in range(2):
            assert (await http.request(method, url)).content == b""


async def test_an_early_refusal_is_read_while_the_body_is_still_being_made() -> None:
    async def script(stream: trio.abc.Stream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await trio.sleep_forever()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            await trio.lowlevel.checkpoint()
            yield bytes(100_000)

    async with peer(script) as url, client(Transport()) as http:
        response = await http.post(url, content=endless())
        assert (response.status_code, response.text) == (413, "big")


async def test_what_the_callers_own_body_raises_reaches_the_caller_as_it_is() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        await trio.lowlevel.checkpoint()
        raise ValueError("no more")

    async with peer(answering(OK)) as url, client(Transport()) as http:
        with pytest.raises(ValueError, match="no more"):
            await http.post(url, content=broken())


async def silent(stream: trio.abc.Stream) -> None:
    await read_request(stream)
    await trio.sleep_forever()


async def half(stream: trio.abc.Stream) -> None:
    await read_request(stream)
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    await trio.sleep_forever()


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("script", [silent, half])
async def test_a_read_that_takes_longer_than_the_request_allows_times_out(script: Script) -> None:
    async with trio.open_nursery() as nursery:
        network = Memory(nursery, script)
        async with client(Transport(connect=network.connect), timeout=httpx.Timeout(7)) as http:
            with pytest.raises(httpx.ReadTimeout):
                await http.get("http://h/")
        assert trio.current_time() == 7
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("autojump_clock")
async def test_patience_for_the_reply_begins_when_a_slow_body_is_sent() -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(10):
            await trio.sleep(5)
            yield b"x"

    async def script(stream: trio.abc.Stream) -> None:
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            data += await stream.receive_some(65536)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        network = Memory(nursery, script)
        async with client(Transport(connect=network.connect), timeout=httpx.Timeout(7)) as http:
            with pytest.raises(httpx.ReadTimeout):
                await http.post("http://h/", content=slowly())
        assert trio.current_time() == 57
        nursery.cancel_scope.cancel()


async def test_a_write_that_the_peer_never_takes_times_out() -> None:
    async def deaf(_: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    async with peer(deaf) as url, client(Transport(), timeout=httpx.Timeout(None, write=0.05)) as http:
        with pytest.raises(httpx.WriteTimeout):
            await http.post(url, content=bytes(30_000_000))


@pytest.mark.usefixtures("autojump_clock")
async def test_a_connection_that_takes_longer_than_the_request_allows_times_out() -> None:
    async def connect(*_: object) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    async with client(Transport(connect=connect), timeout=httpx.Timeout(None, connect=3)) as http:
        with pytest.raises(httpx.ConnectTimeout):
            await http.get("http://h/")
    assert trio.current_time() == 3


async def test_errors_have_the_names_that_users_of_httpx_know() -> None:
    async with client(Transport(max_reply_bytes=100)) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get("http://127.0.0.1:1/")
        with pytest.raises(httpx.UnsupportedProtocol):
            await http.get("ftp://h/")
        for reply, error in (
            (b"", httpx.RemoteProtocolError),
            (b"garbage\r\n\r\n", httpx.RemoteProtocolError),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", httpx.RemoteProtocolError),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", httpx.RemoteProtocolError),
            (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(101), httpx.RemoteProtocolError),
        ):
            async with peer(answering(reply) if reply else answering()) as url:
                with pytest.raises(error) as caught:
                    await http.get(url)
                assert str(caught.value.request.url) == url


async def test_a_lost_keep_alive_connection_is_not_tried_again_under_httpx_either() -> None:
    deliveries = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal deliveries
        while await read_request(stream):
            deliveries += 1
            if deliveries == 2:
                return
            await stream.send_all(OK)

    async with peer(script) as url, client(Transport()) as http:
        await http.get(url)
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(url)
    assert deliveries == 2


async def test_closing_a_response_wakes_the_task_that_reads_it() -> None:
    async def script(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await read_request(stream)

    async with peer(script) as url, Transport() as transport:
        response = await transport.handle_async_request(httpx.Request("GET", url))
        assert isinstance(response.stream, httpx.AsyncByteStream)

        async def read() -> None:
            with pytest.raises(httpx.RemoteProtocolError, match="closed on our side"):
                await anext(aiter(response.stream))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked(0.01)
                await response.aclose()
