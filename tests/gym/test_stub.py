"""The stub that other tests talk to says what Gym's servers say."""

import subprocess
import sys
import urllib.request

import pytest
import trio
import trio.testing

from tests.gym.stub import Stub, body_of, recorded
from triocollect.gym.head import decode_head_reply


async def exchange(stub: Stub, *requests: bytes) -> bytes:
    """Everything the stub sends back on one connection."""
    ours, theirs = trio.testing.memory_stream_pair()
    heard = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stub.converse, 4100, theirs)
        await ours.send_all(b"".join(requests))
        await ours.send_eof()
        async for some in ours:
            heard += some
    return bytes(heard)


def a_run(body: bytes) -> bytes:
    return b"POST /run HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def test_two_requests_on_one_connection_are_answered_and_kept() -> None:
    stub = Stub()
    heard = await exchange(stub, recorded("run_flat.request"), recorded("run_flat.request"))
    assert heard == recorded("run_flat") * 2
    assert heard.count(b"server: uvicorn") == 4
    first, second = stub.runs()
    assert first == second
    assert (first.method, first.body) == ("POST", body_of("run_flat.request"))
    assert first.header(b"content-type") == [b"application/json"]


@pytest.mark.parametrize("name", ["run_500", "run_bad_json"])
async def test_a_row_chooses_its_answer(name: str) -> None:
    assert await exchange(Stub(), a_run(b'{"stub":"%s"}' % name.encode())) == recorded(name)


async def test_a_short_body_and_a_drop_end_the_connection() -> None:
    later = recorded("run_flat.request")
    assert await exchange(Stub(), a_run(b'{"stub":"run_short"}'), later) == recorded("run_short")
    assert await exchange(Stub(), a_run(b'{"stub":"drop"}'), later) == b""


async def test_an_episode_is_answered_under_its_own_names() -> None:
    body = body_of("episode.request").replace(b'"0-0"', b'"5-1"').replace(b'"w0"', b'"w5"')
    heard = await exchange(Stub(), a_run(body))
    assert (
        b'{"episode_id":{"rollout_id":"5-1","attempt":0},"task_id":{"taskset":"weather","task_id":"w5"}'
        in heard
    )


async def test_the_head_sends_every_server_to_the_stub() -> None:
    heard = await exchange(Stub(), b"GET /global_config_dict_yaml HTTP/1.1\r\nHost: h\r\n\r\n")
    config = decode_head_reply(heard.partition(b"\r\n\r\n")[2])
    assert {server.url for server in config.servers.values()} == {"http://127.0.0.1:4100"}


async def test_delay_passes_before_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    await exchange(Stub(delay_s=30), recorded("run_flat.request"))
    assert trio.current_time() == autojump_clock.current_time() >= 30


@pytest.mark.processes
def test_the_stub_runs_as_a_process_and_says_where_it_is() -> None:
    command = [sys.executable, "-m", "tests.gym.stub"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{url}/global_config_dict_yaml", timeout=10) as reply:
                assert decode_head_reply(reply.read()).servers
        finally:
            process.kill()
