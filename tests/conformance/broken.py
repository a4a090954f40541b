"""Around a participant that keeps its promises: what comes and what goes can be changed."""

import json

from tests.conformance.participants import PREFIX, answer, body_of, whole
from triocollect.protocol.refusals import status_of


async def refuse(send, code):
    await answer(send, status_of(code), {"error": {"code": code, "detail": ""}})


class Broken:
    """As it is, it breaks nothing."""

    def __init__(self, root, **how):
        self.root, self.app = root, whole(root, **how)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["path"].startswith(PREFIX):
            verb = scope["path"].removeprefix(PREFIX)
            body = await body_of(receive)
            call = json.loads(body) if body.startswith(b'{"') else None
            await self.control(scope, verb, call, body, send)
        else:
            await self.data(scope, receive, send)

    async def control(self, scope, verb, call, body, send):
        await self.inner(scope, body if call is None else json.dumps(call).encode(), send)

    async def data(self, scope, receive, send):
        await self.app(scope, receive, send)

    async def inner(self, scope, body, send):
        async def receive():
            return {"type": "http.request", "body": body}

        await self.app(scope, receive, send)

    async def asked(self, scope, body):
        """What the whole one answers: (status, decoded body)."""
        sent = []

        async def send(message):
            sent.append(message)

        await self.inner(scope, body, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def is_open(self, scope):
        return (await self.standing(scope)).get("phase") == "open"

    async def standing(self, scope):
        """The whole one's status."""
        return (await self.asked({**scope, "method": "GET", "path": PREFIX + "status"}, b""))[1]


class Changed(Broken):
    """What it answers to a call that was carried out is something else."""

    async def control(self, scope, verb, call, body, send):
        status, said = await self.asked(scope, body)
        if status == 200:
            self.change(verb, call, said)
        await answer(send, status, said)
