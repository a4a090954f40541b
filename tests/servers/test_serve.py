"""A server as a process of its own."""

import socket
import subprocess
import sys

import pytest
import trio

pytestmark = pytest.mark.processes

STAYING = """
import sys
import trio
from starlette.applications import Starlette
from starlette.routing import Route
from triocollect.servers.serve import run_child

async def stay(request):
    print("asked", flush=True)
    with trio.CancelScope(shield=True):
        await trio.sleep(60)

run_child(Starlette(routes=[Route("/", stay)]), int(sys.argv[1]))
"""


async def test_a_server_whose_owner_is_gone_ends_at_once_whatever_it_does():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        server = await trio.lowlevel.open_process(
            [sys.executable, "-c", STAYING, str(listener.fileno())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[listener.fileno()],
        )  # fmt: skip
        client.connect(listener.getsockname())
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        with trio.fail_after(60):
            assert (await server.stdout.receive_some()).startswith(b"asked")
        await server.stdin.aclose()
        with trio.fail_after(3):
            await server.wait()
        await server.stdout.aclose()
