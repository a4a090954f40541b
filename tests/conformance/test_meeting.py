"""Where nothing can be tried, one sentence says why."""

from functools import partial

import httpx
import pytest

from tests.conformance.participants import TOKEN, Desk, whole
from triocollect.conformance import Terms, examine_in_process
from triocollect.conformance.meeting import meet
from triocollect.errors import RefusedError, UsageError


def refuses(handle):
    """A client whose requests are all answered by `handle`."""
    return httpx.AsyncClient(transport=httpx.MockTransport(handle))


async def said(handle, *, kind=None):
    async with refuses(handle) as client:
        with pytest.raises((UsageError, RefusedError)) as refused:
            await meet(client, "http://server", TOKEN, kind)
    return str(refused.value)


def answering(status, **changed):
    """A participant that says what it is, with something changed."""
    capabilities = {"boot": "b", "kind": "agent", "instance": "desk", "protocol": 1, "mode": "exported"}
    standing = {
        "boot": "b", "phase": "open", "operation": None, "epoch": 0, "lease_expires": None, "report": None,
        "restored_pending": 0, "served": False, "needed": False,
    }  # fmt: skip

    def handle(request):
        said = capabilities if request.url.path.endswith("capabilities") else standing
        return httpx.Response(status, json=said | {name: changed[name] for name in changed if name in said})

    return handle


async def test_nobody_is_there():
    def handle(request):
        raise httpx.ConnectError("connection refused", request=request)

    assert await said(handle) == "http://server: connection refused; is it running?"


async def test_the_url_of_a_control_plane_in_place_of_the_servers():
    async with refuses(lambda _: httpx.Response(422, json={})) as client:
        with pytest.raises(UsageError, match=r"give the server's own URL, http://server$"):
            await meet(client, "http://server/checkpoint/v1", TOKEN, None)


@pytest.mark.parametrize(
    ("url", "why", "hint"),
    [
        ("https://server", "TLS failed: WRONG_VERSION_NUMBER", "Then write http://"),
        ("http://server", "the name cannot be resolved", "is its name right?"),
    ],
)
async def test_a_url_that_leads_nowhere_says_what_to_look_at(url, why, hint):
    def handle(request):
        raise httpx.ConnectError(why, request=request)

    async with refuses(handle) as client:
        with pytest.raises(UsageError) as refused:
            await meet(client, url, TOKEN, None)
    assert str(refused.value).startswith(f"{url}: {why}; ")
    assert str(refused.value).endswith(hint)


async def test_a_server_without_a_control_plane():
    assert "takes no part in checkpoints: it has no control plane" in await said(answering(404))


async def test_a_server_with_another_token():
    assert "does not take the control token" in await said(answering(401))


async def test_a_server_whose_lifespan_is_off_says_so_itself():
    detail = {"error": {"code": "coordinator_unavailable", "detail": "start the server with lifespan on"}}
    assert (await said(lambda _: httpx.Response(503, json=detail))).endswith(
        "with 503: start the server with lifespan on"
    )


async def test_a_page_that_is_no_participant():
    assert "is no participant: its capabilities cannot be read" in await said(
        lambda _: httpx.Response(200, html="<html>")
    )


async def test_a_server_of_another_kind():
    assert await said(answering(200), kind="model") == (
        "http://server is no model server: it says that its kind is agent; name it "
        "--participant agent=http://server"
    )


async def test_a_protocol_of_another_version():
    assert "speaks version 2 of the protocol, not 1" in await said(answering(200, protocol=2))


@pytest.mark.parametrize("changed", [{"phase": "prepared"}, {"restored_pending": 3}])
async def test_a_server_in_the_middle_of_something_is_left_alone(changed):
    assert "is in the middle of something" in await said(answering(200, **changed))


async def test_a_server_between_two_requests_of_a_run_is_left_alone(tmp_path, autojump_clock):
    assert "works for a collector that has not said goodbye" in await said(answering(200, needed=True))


async def test_a_server_that_works_for_another_collector_is_left_alone(tmp_path, autojump_clock):
    live = partial(_Busy, tmp_path)
    with pytest.raises(RefusedError, match="at work for another collector"):
        await examine_in_process(live, Terms(token=TOKEN))


class _Busy:
    """A participant whose collector has greeted and whose work never ends."""

    def __init__(self, root):
        self.app = whole(root)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or not scope["path"].endswith("/hello"):
            await self.app(scope, receive, send)
            return
        body = b'{"error": {"code": "other_run", "detail": "this server works for run r1"}}'
        await send({"type": "http.response.start", "status": 409, "headers": []})
        await send({"type": "http.response.body", "body": body})


async def test_an_application_that_does_not_start_says_why(autojump_clock):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with pytest.raises(UsageError, match="does not start: no database"):
        await examine_in_process(lambda: app, Terms(token=TOKEN))


async def test_an_application_without_a_control_plane(autojump_clock):
    with pytest.raises(UsageError, match="takes no part in checkpoints"):
        await examine_in_process(_NotFound, Terms(token=TOKEN))


class _NotFound(Desk):
    def __init__(self):
        super().__init__(None)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})
