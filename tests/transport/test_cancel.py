"""Cancelled requests leave nothing behind."""

import contextlib
import os
import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.transport.peer import OK, peer, read_request
from triocollect.errors import ReplyLostError
from triocollect.transport import Transport


def descriptors_to(url: str) -> int:
    """How many sockets of this process are connected to the server."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as sock:
            count += sock.family == socket.AF_INET and sock.getpeername()[1] == port
    return count


async def slow_half(stream: trio.abc.Stream) -> None:
    """Answers what says fast, and never what says slow."""
    while request := await read_request(stream):
        if b"slow" in request:
            await trio.sleep_forever()
        await stream.send_all(OK)


async def test_after_hundreds_of_cancelled_requests_every_other_one_is_served_and_no_descriptor_is_left() -> (
    None
):
    async with peer(slow_half) as url, Transport() as transport:
        await transport.post(url, b"fast")

        async def cancelled(number: int) -> None:
            with trio.move_on_after(0.001 * (number % 20)):
                await transport.post(url, b"fast" if number % 3 else b"slow" + bytes(number * 10_000))

        for _ in range(4):
            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(cancelled, number)
        for _ in range(100):
            assert (await transport.post(url, b"fast")).body == b"ok"
        assert descriptors_to(url) <= 100
        await transport.aclose()
        assert descriptors_to(url) == 0


@pytest.mark.parametrize("size", [10, 50_000_000])
async def test_a_cancelled_request_closes_its_connection_at_once(size: int) -> None:
    gone = trio.Event()

    async def script(stream: trio.abc.Stream) -> None:
        await stream.receive_some(1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        cancel.cancel()
        while await stream.receive_some(1 << 20):
            pass
        gone.set()

    async with peer(script) as url, Transport() as transport:
        with trio.CancelScope() as cancel:
            await transport.post(url, bytes(size))
        assert cancel.cancelled_caught
        with trio.fail_after(5):
            await gone.wait()


async def test_a_cancelled_caller_sends_nothing_though_a_connection_is_at_hand() -> None:
    heard = 0

    async def script(stream: trio.abc.Stream) -> None:
        nonlocal heard
        while await read_request(stream):
            heard += 1
            await stream.send_all(OK)

    async with peer(script) as url, Transport() as transport:
        await transport.post(url, b"{}")
        with trio.CancelScope() as scope:
            scope.cancel()
            await transport.post(url, b"{}")
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert heard == 1
        assert (await transport.post(url, b"{}")).body == b"ok"


async def test_a_transport_closes_quietly_inside_a_cancelled_scope() -> None:
    gone = trio.Event()

    async def script(stream: trio.abc.Stream) -> None:
        while await read_request(stream):
            await stream.send_all(OK)
        gone.set()

    async with peer(script) as url:
        with trio.CancelScope() as scope:
            async with Transport() as transport:
                await transport.post(url, b"{}")
                scope.cancel()
                await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        with trio.fail_after(5):
            await gone.wait()


async def test_a_caller_with_a_deadline_gets_only_its_deadline_even_while_a_large_body_is_on_its_way() -> (
    None
):
    async def deaf(_: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    async with peer(deaf) as url, Transport() as transport:
        with pytest.raises(trio.TooSlowError), trio.fail_after(0.05):
            await transport.post(url, bytes(30_000_000))


async def test_a_lost_reply_beside_a_large_body_is_one_plain_error() -> None:
    async def script(stream: trio.abc.Stream) -> None:
        await stream.receive_some(1)

    async with peer(script) as url, Transport() as transport:
        with pytest.raises(ReplyLostError):
            await transport.post(url, bytes(30_000_000))
