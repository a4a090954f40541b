"""A participant in this process: its lifespan, a caller with the token, and both ways to run what blocks."""

from contextlib import asynccontextmanager

import anyio
import httpx
import msgspec

from tests.participant.counts import Counts
from triocollect.participant import Admission, ControlPlane
from triocollect.protocol.ids import EpisodeId

TOKEN = "s3cret"
RUN = {"run": "r1", "epoch": 1, "budget_ms": 5_000, "lease_ms": 60_000}


async def inline(work):
    """For simulated time: no thread."""
    return work()


class Caller:
    """Speaks to one participant as a collector and its rows do."""

    def __init__(self, plane, counts, root):
        self.plane, self.counts, self.root = plane, counts, root
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(plane),
            base_url="http://participant",
            headers={"authorization": f"Bearer {TOKEN}"},
        )

    async def post(self, verb, operation, **fields):
        """Answers (status, decoded body); the body of a refusal is what stands in `error`."""
        body = msgspec.json.encode({**RUN, "operation": operation, **fields})
        reply = await self.client.post(f"/checkpoint/v1/{verb}", content=body)
        decoded = reply.json()
        return reply.status_code, decoded.get("error", decoded)

    async def ok(self, verb, operation, **fields):
        status, body = await self.post(verb, operation, **fields)
        assert status == 200, body
        return body

    async def refused(self, verb, operation, **fields):
        """The code of the refusal."""
        status, body = await self.post(verb, operation, **fields)
        assert status != 200, body
        return body["code"]

    async def status(self):
        return (await self.client.get("/checkpoint/v1/status")).json()

    async def phase(self):
        return (await self.status())["phase"]

    async def add(self, episode, number=1):
        reply = await self.client.post(f"/{episode.rollout_id}/{episode.attempt}/{number}")
        return reply.json()

    async def committed(self, operation, *episodes, **fields):
        """Prepare and commit."""
        await self.ok("prepare", operation)
        return await self.ok("commit", operation, **commit(operation, *episodes), **fields)

    def installing(self, operation, answer, **becomes):
        """The fields of a restore of what `committed` answered."""
        scope = [{"rollout_id": key, "attempt": 0, "becomes": attempt} for key, attempt in becomes.items()]
        return {
            "checkpoint_id": f"c{operation}",
            "directory": f"ckpt-{operation:06}",
            "manifest_sha256": answer["manifest"]["sha256"],
            "scope": scope,
        }


def commit(operation, *episodes):
    scope = [{"rollout_id": one.rollout_id, "attempt": one.attempt} for one in episodes]
    return {"checkpoint_id": f"c{operation}", "directory": f"ckpt-{operation:06}", "scope": scope}


def retire(*episodes):
    return {"episodes": commit(0, *episodes)["scope"]}


@asynccontextmanager
async def lifespan_of(app):
    """Run an application's lifespan around a block."""
    orders, order = anyio.create_memory_object_stream(1)
    started, done = anyio.Event(), anyio.Event()

    async def receive():
        return await order.receive()

    async def send(message):
        (started if message["type"] == "lifespan.startup.complete" else done).set()

    async with orders, order, anyio.create_task_group() as tasks:
        tasks.start_soon(app, {"type": "lifespan"}, receive, send)
        await orders.send({"type": "lifespan.startup"})
        await started.wait()
        yield
        await orders.send({"type": "lifespan.shutdown"})
        await done.wait()


@asynccontextmanager
async def participant(root, *, in_thread=anyio.to_thread.run_sync):
    """A counting server with nothing counted, and a caller."""
    admission = Admission()
    counts = Counts(admission)
    plane = ControlPlane(counts, counts, admission, token=TOKEN, root=root, in_thread=in_thread)
    async with lifespan_of(plane):
        caller = Caller(plane, counts, root)
        async with caller.client:
            yield caller


ONE, TWO = EpisodeId("one"), EpisodeId("two")
