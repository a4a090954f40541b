"""Most URLs are taken apart without httpx, and come out as httpx has them."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from triocollect.errors import NotSentError
from triocollect.transport.foreign import address_of
from triocollect.transport.origin import Address, Destination

HOSTS = ["h", "a-b.example.org", "n0.local.", "127.0.0.1", "10.0.0.255", "1.2.3", "01.2.3.4", "256.1.1.1"]
PORTS = ["", ":", ":80", ":443", ":8000", ":65535", ":65536", ":08000", ":0"]
PATHS = [
    "",
    "/",
    "/run",
    "/v1/run/",
    "//run",
    "/a.b/~c_d-e",
    "/./a",
    "/a/../b",
    "/.hidden",
    "/a?b=c",
    "/a#b",
    "/%20",
]


@pytest.mark.parametrize("scheme", ["http", "https", "HTTP", "ftp"])
@pytest.mark.parametrize("host", [*HOSTS, "UPPER.example", "bücher.example", "[::1]", "user@h", "h_x", ""])
def test_a_url_is_taken_apart_as_httpx_has_it(scheme: str, host: str) -> None:
    for url in (f"{scheme}://{host}{port}{path}" for port in PORTS for path in PATHS):
        assert said(ours, url) == said(address_of, url), url


def ours(url: str) -> Address:
    target = Destination(url)
    first, second = target.head(b"GET", (), None).split(b"\r\n")[:2]
    return Address(target.origin, second.removeprefix(b"host: "), first.split()[1])


def said(take_apart: Callable[[str], Address], url: str) -> Address | str:
    try:
        return take_apart(url)
    except NotSentError as refusal:
        return str(refusal)


@pytest.mark.processes
def test_a_row_goes_to_a_plain_url_without_loading_httpx() -> None:
    code = (
        "import sys, triocollect.collector.door; "
        "from triocollect.transport.origin import Address, Destination; "
        "Destination('http://127.0.0.1:8000/run'); Destination('https://node-3.cluster.example/v1/run'); "
        "sys.exit('httpx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
