"""A small participant of any kind and mode, and ways in which somebody's participant can be broken."""

import json
from functools import partial
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

    asks, continues, takes_s = True, True, 1

    def __init__(self, admission, sessions, parts):
        self.admission, self.sessions = admission, sessions
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
        with self.admission.enter(episode, "playing") as work:
            async with work.resting("playing"):
                await anyio.sleep(self.takes_s)
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


class Broken:
    """Around a whole participant: what comes and what goes can be changed."""

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


class TakesAnyToken(Broken):
    async def control(self, scope, verb, call, body, send):
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        headers.append((b"authorization", f"Bearer {TOKEN}".encode()))
        await self.inner({**scope, "headers": headers}, body, send)


class TakesALowerEpoch(Broken):
    highest = 0

    async def control(self, scope, verb, call, body, send):
        if call is not None and isinstance(call.get("epoch"), int):
            self.highest = call["epoch"] = max(self.highest, call["epoch"])
        await super().control(scope, verb, call, body, send)


class TellsAnotherDigest(Broken):
    async def control(self, scope, verb, call, body, send):
        status, said = await self.asked(scope, body)
        if verb == "commit" and status == 200:
            said["manifest"]["sha256"] = "0" * 64
        await answer(send, status, said)


class AnswersACommitBeforeItIsOnDisk(Broken):
    async def control(self, scope, verb, call, body, send):
        status, said = await self.asked(scope, body)
        if verb == "commit" and status == 200:
            manifest = self.root / said["manifest"]["path"]
            for records in manifest.parent.glob("records-*"):
                records.write_bytes(records.read_bytes()[:-1] + b" ")
        await answer(send, status, said)


class WritesAfterTheResume(Broken):
    told = late = None

    async def __call__(self, scope, receive, send):
        if self.late is not None and scope["type"] == "http":
            self.late.mkdir(parents=True, exist_ok=True)
            (self.late / "records-late.jsonl").write_bytes(b"")
        await super().__call__(scope, receive, send)

    async def control(self, scope, verb, call, body, send):
        if verb == "commit" and "directory" in (call or {}):
            self.told = self.root / call["directory"]
        if verb == "resume":
            self.late = self.told
        await super().control(scope, verb, call, body, send)


class HasALeaseThatNeverEnds(Broken):
    async def control(self, scope, verb, call, body, send):
        if call is not None and isinstance(call.get("lease_ms"), int):
            call["lease_ms"] = 36_000_000
        await super().control(scope, verb, call, body, send)


class NeverOpensItsDoorAgain(Broken):
    shut = False

    async def control(self, scope, verb, call, body, send):
        self.shut = self.shut or verb == "prepare"
        await super().control(scope, verb, call, body, send)

    async def data(self, scope, receive, send):
        if self.shut:
            await anyio.sleep_forever()
        await self.app(scope, receive, send)


class OpensWithoutWakingWhoWaits(Broken):
    closed = False

    async def control(self, scope, verb, call, body, send):
        if verb in {"prepare", "hello", "resume"}:
            self.closed = verb == "prepare"
        await super().control(scope, verb, call, body, send)

    async def data(self, scope, receive, send):
        if self.closed:
            await anyio.sleep_forever()
        await self.app(scope, receive, send)


class LetsWorkInWhileClosed(Broken):
    """A server whose routes nobody put behind its admission."""

    async def data(self, scope, receive, send):
        await answer(send, 200, {})


class RestoresAlthoughItHasServed(Broken):
    def __init__(self, root):
        super().__init__(root, kept=_Innocent)


class _Innocent(Sessions):
    def served(self):
        return False


class RetiresInsideACheckpoint(Broken):
    async def control(self, scope, verb, call, body, send):
        status, said = await self.asked(scope, body)
        if verb == "retire" and status == 409 and said["error"]["code"] == "invalid_phase":
            keys = [EpisodeId(**one).capture_key for one in call["episodes"]]
            status, said = 200, {"boot": "none", "retired": keys}
        await answer(send, status, said)


class StaysAfterTheGoodbye(Broken):
    async def control(self, scope, verb, call, body, send):
        if verb == "forget" and call is not None:
            call["goodbye"] = False
        await super().control(scope, verb, call, body, send)


class TakesNoRunAgain(Broken):
    """An environment that stays closed, although it says that it is open."""

    def __init__(self, root):
        super().__init__(root, kind="environment")
        self.shut = False

    async def control(self, scope, verb, call, body, send):
        self.shut = self.shut or verb == "prepare"
        await super().control(scope, verb, call, body, send)

    async def data(self, scope, receive, send):
        if self.shut:
            await answer(send, 409, {"error": {"code": Code.CHECKPOINT_OPEN, "detail": ""}})
        else:
            await self.app(scope, receive, send)


class SaysOneThingTwice(Broken):
    """A model server that has one answer for all who wait."""

    def __init__(self, root):
        super().__init__(root, kind="model")

    async def data(self, scope, receive, send):
        async def named(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": [(b"x-call-id", b"the-only-one")]}
            await send(message)

        await self.app(scope, receive, named)


class Forgetful(Sessions):
    def export(self, scope):
        return []


class Hasty:
    """In place of `Admitted`: it asks whose turn it is, then waits, and asks no more."""

    def __init__(self, app, admission):
        self.app, self.admission = app, admission

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        episode = episode_in(headers)
        why = None if episode is None else self.admission.refusal(episode, sender=sender_in(headers))
        if episode is None:
            await answer(send, 400, {"error": {"code": Code.ROLLOUT_ID_REQUIRED, "detail": ""}})
        elif why is not None:
            more = {"retired_through": why.retired_through} if isinstance(why.retired_through, int) else {}
            await answer(send, 409, {"error": {"code": why.code, "detail": "", **more}})
        else:
            await self.admission.until_open()
            with self.admission.enter(episode, "asked"):
                await self.app(scope, receive, send)


class GivesUpAtAnyGreeting(Broken):
    """The greeting of an epoch that is known already is no reason to open."""

    async def control(self, scope, verb, call, body, send):
        if verb == "hello" and call is not None:
            _, status = await self.asked({**scope, "method": "GET", "path": PREFIX + "status"}, b"")
            if status.get("epoch") == call["epoch"] and status["operation"] is not None:
                resume = json.dumps({**call, "operation": status["operation"]}).encode()
                await self.asked({**scope, "path": PREFIX + "resume"}, resume)
        await super().control(scope, verb, call, body, send)


RunsWhileClosed = partial(whole, kind="environment", asks=False)
AdmitsWithoutAskingAgain = partial(whole, admitted=Hasty)
ExportsNothingUnderWay = partial(whole, kind="environment", kept=Forgetful)
GoesOnFromNothing = partial(whole, kind="environment", continues=False)
