"""https, with a certificate made for the test."""

import contextlib
import functools
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from tests.transport.peer import OK, read_request
from triocollect.errors import NotSentError
from triocollect.transport import Transport

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command here")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    key = path.with_name("key.pem")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += [
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
    ]
    subprocess.run([*command, "-keyout", str(key), "-out", str(path)], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return path


@contextlib.asynccontextmanager
async def https_peer(certificate: Path, seen: list[int]) -> AsyncIterator[str]:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate)

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        seen.append(0)
        with contextlib.suppress(trio.BrokenResourceError):
            while request := await read_request(stream):
                seen[-1] += len(request)
                await stream.send_all(OK)
        await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        serve_all = functools.partial(trio.serve_ssl_over_tcp, serve, 0, server, host="127.0.0.1")
        listeners = await nursery.start(functools.partial(serve_all, https_compatible=True))
        port = listeners[0].transport_listener.socket.getsockname()[1]
        yield f"https://127.0.0.1:{port}/run"
        nursery.cancel_scope.cancel()


async def test_rows_go_over_tls_on_one_connection_large_ones_too(certificate: Path) -> None:
    seen: list[int] = []
    trusting = ssl.create_default_context(cafile=certificate)
    async with https_peer(certificate, seen) as url, Transport(ssl_context=trusting) as transport:
        for size in (10, 3_000_000, 10):
            assert (await transport.post(url, bytes(size))).body == b"ok"
    assert len(seen) <= 2  # session tickets may arrive late: then the connection is not taken again
    assert sum(seen) > 3_000_020


async def test_a_certificate_that_nobody_vouches_for_is_not_sent_to(certificate: Path) -> None:
    seen: list[int] = []
    async with https_peer(certificate, seen) as url, Transport() as transport:
        with pytest.raises(NotSentError, match="TLS failed: CERTIFICATE_VERIFY_FAILED") as refused:
            await transport.post(url, b"{}")
    assert refused.value.kind == "tls"
    assert sum(seen) == 0


async def test_https_to_a_plain_port_is_not_sent() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with trio.open_nursery() as nursery, Transport() as transport:
        listeners = await nursery.start(functools.partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        with pytest.raises(NotSentError) as refused:
            await transport.post(f"https://127.0.0.1:{port}/", b"{}")
        assert refused.value.kind == "tls"
        nursery.cancel_scope.cancel()
