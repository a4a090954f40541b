"""An answer that comes while its model server is closed is held, or its agent moves on behind the cut."""

import json

import httpx
import trio
from trio.testing import wait_all_tasks_blocked

from fuzz.invariants import holds
from triocollect.servers.model.app import ModelSettings, build_app

COMPLETED = {"type": "response.completed", "response": {"id": "r", "output": []}}


async def when_it_was_answered():
    """Whether a call under way was answered while the door was closed; and after it was open again."""
    generated, answered = trio.Event(), trio.Event()

    async def worker(_request):
        await generated.wait()
        data = b"data: " + json.dumps(COMPLETED).encode() + b"\n\n"
        return httpx.Response(200, content=data, headers={"content-type": "text/event-stream"})

    settings = ModelSettings(worker_url="http://worker/v1")
    app = build_app(settings, lambda _url: httpx.MockTransport(worker))
    admission = app.routes[0].app.capture.admission

    async def call(client):
        reply = await client.post("/ng-rollout/0-0/v1/responses", json={"input": "hi"})
        assert reply.json() == COMPLETED["response"]
        answered.set()

    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model")
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(call, client)
        await wait_all_tasks_blocked()
        admission.close()
        generated.set()
        await wait_all_tasks_blocked()
        while_closed = answered.is_set()
        admission.open()
        await answered.wait()
    return while_closed


def test_a_call_that_ends_while_the_door_is_closed_is_answered_when_it_opens():
    early = trio.run(when_it_was_answered)
    holds(11, not early, "an agent got its answer behind the cut, which has the call in no ledger")
