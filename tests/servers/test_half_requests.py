"""A client that hangs up in the middle of its request is no fault: no answer, and no word on a terminal."""

import json

import pytest
import trio

from triocollect.servers.serve import make_app

SETTINGS = {"inference": {}, "model": {"worker_url": "http://worker/v1"}}


@pytest.mark.parametrize("kind", SETTINGS)
async def test_half_a_request_ends_in_silence(kind):
    app = make_app(kind, json.dumps(SETTINGS[kind]).encode())
    heard = [{"type": "http.request", "body": b'{"inp', "more_body": True}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        await trio.lowlevel.checkpoint()
        return heard.pop(0)

    async def send(message):
        sent.append(message)

    where = {"path": "/v1/responses", "raw_path": b"/v1/responses", "root_path": "", "query_string": b""}
    await app({"type": "http", "method": "POST", "headers": [], **where}, receive, send)
    assert (heard, sent) == ([], [])
