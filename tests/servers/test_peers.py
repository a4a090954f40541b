"""How a server asks another one that is not there, with time simulated."""

from collections.abc import Callable

import httpx
import pytest
import trio
from trio.testing import MockClock

from triocollect.errors import PeerError
from triocollect.servers.peers import HOLD_S, Peer


def a_peer(answer: Callable[[httpx.Request], httpx.Response]) -> Peer:
    return Peer("counter", "http://counter", lambda _: httpx.MockTransport(answer))


async def test_a_peer_that_takes_no_connection_yet_is_tried_again(autojump_clock: MockClock) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if trio.current_time() < begin + HOLD_S / 2:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, content=request.content)

    begin = trio.current_time()
    assert (await a_peer(answer).post("/verify", b"{}", {})).body == b"{}"


async def test_a_peer_that_takes_no_connection_is_told_after_the_hold(autojump_clock: MockClock) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    begin = trio.current_time()
    with pytest.raises(PeerError, match="counter did not answer: refused"):
        await a_peer(answer).post("/verify", b"{}", {})
    assert HOLD_S <= trio.current_time() - begin < 2 * HOLD_S


async def test_a_peer_that_hangs_up_is_told_after_the_hold_and_not_asked_again(
    autojump_clock: MockClock,
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise httpx.RemoteProtocolError("closed", request=request)

    asked: list[httpx.Request] = []
    begin = trio.current_time()
    with pytest.raises(PeerError, match="counter did not answer: closed"):
        await a_peer(answer).post("/verify", b"{}", {})
    assert len(asked) == 1
    assert trio.current_time() - begin == HOLD_S


async def test_the_hold_ends_with_the_one_who_waits(autojump_clock: MockClock) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.RemoteProtocolError("closed", request=request)

    begin = trio.current_time()
    with trio.move_on_after(HOLD_S / 4) as patience:
        await a_peer(answer).post("/verify", b"{}", {})
    assert patience.cancelled_caught
    assert trio.current_time() - begin == HOLD_S / 4
