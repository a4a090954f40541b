"""A small participant of any kind and mode that keeps its promises, unless a part of it is another one."""

import json
from itertools import count

import anyio

from triocollect.participant import (
    Admission,
    Admitted,
    ControlPlane,
    Participant,
    Record,
    Sessions,
    episode_in,
)
from triocollect.protocol.identity import CONTINUED, sender_in
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, status_of

TOKEN = "s3cret"
PREFIX = "/checkpoint/v1/"
CALLS = count()


async def inline(work):
    """For simulated time: no thread."""
    return work()


async def answer(send, status, body, headers=()):
    await send({"type": "http.response.start", "status": status, "headers": [*headers]})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


async def body_of(receive):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


async def lifespan(receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


class Desk:
    """An application: whoever asks has a session from then on."""

    def __init__(self, sessions):
        self.sessions = sessions

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        episode = episode_in({name.decode(): value.decode() for name, value in scope["headers"]})
        if isinstance(self.sessions, Sessions):
            self.sessions.begin(episode, {"asked": 1})
        await answer(send, 200, {}, [(b"x-call-id", str(next(CALLS)).encode())])


class Playing:
    """The application of an environment."""

    asks, continues, takes_s, alone = True, True, 1, True

    def __init__(self, admission, sessions, parts):
        self.admission, self.sessions, self.under_way = admission, sessions, set()
        vars(self).update(parts)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        row = json.loads(await body_of(receive))
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        refused = self.refusal(row, headers)
        if refused is None and await self.play(EpisodeId(row["_ng_rollout_id"], row["_ng_attempt_index"])):
            await answer(send, 200, {"reward": 1.0})
            return
        code, more = refused or self.refusal(row, headers)
        await answer(send, status_of(code), {"error": {"code": code, "detail": "", **more}})

    async def play(self, episode):
        kept = isinstance(self.sessions, Sessions)
        if kept:
            self.sessions.begin(episode, {"asked": 1})
        self.under_way.add(episode)
        try:
            with self.admission.enter(episode, "playing") as work:
                async with work.resting("playing"):
                    await anyio.sleep(self.takes_s)
        finally:
            self.under_way.discard(episode)
        if kept:
            self.sessions.end(episode)
        return not work.retired

    def refusal(self, row, headers):
        if "_ng_rollout_id" not in row:
            return Code.ROLLOUT_ID_REQUIRED, {}
        episode = EpisodeId(row["_ng_rollout_id"], row["_ng_attempt_index"])
        refusal = self.admission.refusal(episode, sender=sender_in(headers))
        if refusal is not None:
            through = refusal.retired_through
            return refusal.code, {"retired_through": through} if isinstance(through, int) else {}
        self.admission.end_expired_lease()
        if self.asks and self.admission.closed:
            return Code.CHECKPOINT_OPEN, {}
        if self.alone and episode in self.under_way:
            return Code.DUPLICATE_ATTEMPT, {}
        going_on = headers.get(CONTINUED) == "1"
        restored = isinstance(self.sessions, Sessions) and episode in self.sessions.restored
        return (Code.NOT_RESTORED, {}) if going_on and not (restored and self.continues) else None


def whole(root, kind="resources", mode="exported", **parts):
    """A participant that keeps its promises, unless some of its `parts` are others."""
    admission = Admission()
    if mode == "exported":
        kept = parts.get("kept", Sessions)
        hooks = kept(kind, "desk", admission, dump=lambda state: state, load=lambda state: state)
    else:
        hooks = Participant(kind, "desk", admission, Record)
        hooks.mode = mode
    if kind == "environment":
        app = Playing(admission, hooks, parts)
    else:
        app = parts.get("admitted", Admitted)(Desk(hooks), admission)
    return ControlPlane(app, hooks, admission, token=TOKEN, root=root, in_thread=inline)
