"""A collector's part in checkpoints of a wired deployment: the control calls, one operation after another."""

import json
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import msgspec
import trio

from tests.participant.harness import lifespan_of
from tests.servers.wired import COUNTER_ROW, Deployment
from triocollect.deployment.plan import SOURCES

TOKEN = "s3cret"
IN_ORDER = ("environment", "policy_model", "agent", *SOURCES)
ROW = {**COUNTER_ROW, "_ng_rollout_id": "r"}
CONTINUED = {"x-continued": "1"}
ACTIVATE = "/ng-rollout/r/v1/responses"
_OPERATIONS = count(1)


def the_code(reply):
    """The status of a refusal, and its code."""
    return reply.status_code, reply.json()["error"]["code"]


class Crew:
    """All participants of one deployment, spoken to by the collector of one epoch."""

    def __init__(self, deployment: Deployment, epoch: int):
        self.deployment, self.epoch = deployment, epoch
        self.operation = next(_OPERATIONS)

    def hooks(self, name):
        return self.deployment.apps[name].user_middleware[0].kwargs["hooks"]

    async def call(self, name, verb, **fields):
        common = {"run": "r1", "epoch": self.epoch, "operation": self.operation, "budget_ms": 20_000}
        async with self.deployment.client(name) as client:
            reply = await client.post(
                f"/checkpoint/v1/{verb}",
                content=msgspec.json.encode({**common, **fields}),
                headers={"authorization": f"Bearer {TOKEN}"},
            )
        return reply.status_code, reply.json()

    async def ok(self, name, verb, **fields):
        status, body = await self.call(name, verb, **fields)
        assert status == 200, (name, verb, body)
        return body

    async def prepare(self):
        """Answers what each participant reports; all of them are ready then."""
        self.operation = next(_OPERATIONS)
        answers = {}
        for name in IN_ORDER:
            answers[name] = await self.ok(name, "prepare")
            assert answers[name]["phase"] == "prepared", (name, answers[name])
        return {name: answer["report"] for name, answer in answers.items()}

    async def blockers(self, name):
        async with self.deployment.client(name) as client:
            headers = {"authorization": f"Bearer {TOKEN}"}
            status = (await client.get("/checkpoint/v1/status", headers=headers)).json()
        return [(one["key"], one["why"]) for one in status["report"]["blockers"]]

    def place(self):
        return {"checkpoint_id": f"c{self.operation}", "directory": f"ckpt-{self.operation:06}"}

    async def commit(self, *scope):
        """Answers the place and each participant's commit."""
        place = self.place()
        fields = {**place, "scope": [{"rollout_id": one.rollout_id, "attempt": one.attempt} for one in scope]}
        return place, {name: await self.ok(name, "commit", **fields) for name in IN_ORDER}

    async def resume(self):
        for name in reversed(IN_ORDER):
            await self.ok(name, "resume")

    async def restore(self, committed, **becomes):
        """Install the attempts 0 of these rollouts as the attempts given, and open."""
        place, answers = committed
        self.operation = next(_OPERATIONS)
        scope = [{"rollout_id": name, "attempt": 0, "becomes": attempt} for name, attempt in becomes.items()]
        for name in IN_ORDER:
            fields = {"manifest_sha256": answers[name]["manifest"]["sha256"], "scope": scope}
            await self.ok(name, "restore", **place, **fields)
        await self.resume()

    async def retire(self, *episodes):
        self.operation = next(_OPERATIONS)
        named = [{"rollout_id": one.rollout_id, "attempt": one.attempt} for one in episodes]
        for name in IN_ORDER:
            await self.ok(name, "retire", episodes=named)

    async def forget(self, *rollout_ids):
        self.operation = next(_OPERATIONS)
        for name in IN_ORDER:
            await self.ok(name, "forget", rollout_ids=rollout_ids)

    def kept(self):
        """How much each participant keeps of any episode."""
        agent, model = self.hooks("agent"), self.hooks("policy_model")
        sessions = {name: len(self.hooks(name)) for name in SOURCES}
        return {
            "environment": len(self.hooks("environment").under_way),
            "agent": len(agent),
            "policy_model": len(model.ledger) + len(model.calls.serving),
            **sessions,
            "restored": sum(self.hooks(name).restored_pending() for name in IN_ORDER),
        }


@asynccontextmanager
async def crew(root, *, epoch=1, **more):
    """A fresh deployment with its lifespans; effects and checkpoints of all are below one folder."""
    (root / "effects").mkdir(exist_ok=True)
    (root / "checkpoints").mkdir(exist_ok=True)
    deployment = Deployment(
        checkpoint_dir=root / "checkpoints", control_token=TOKEN, effects_dir=root / "effects", **more
    )
    async with AsyncExitStack() as lives:
        for name in IN_ORDER:
            await lives.enter_async_context(lifespan_of(deployment.apps[name]))
        made = Crew(deployment, epoch)
        for name in IN_ORDER:
            await made.ok(name, "hello")
        yield made


class Rollout:
    """One /run, in the background."""

    def __init__(self, crew, row, attempt=0, **headers):
        self.crew, self.reply, self.done = crew, None, trio.Event()
        self.row = row if attempt == 0 else {**row, "_ng_attempt_index": attempt}
        self.headers = {"x-collector-run": "r1", "x-collector-epoch": str(crew.epoch), **headers}

    async def fly(self):
        async with self.crew.deployment.client() as client:
            self.reply = await client.post("/run", json=self.row, headers=self.headers)
        self.done.set()

    async def landed(self):
        await self.fly()
        return self.reply


def effects(root, source="counter"):
    file = root / "effects" / f"{source}.jsonl"
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


async def calls_of_the_worker(crew):
    async with crew.deployment.client("inference") as client:
        return (await client.get("/calls")).json()["total"]["calls"]
