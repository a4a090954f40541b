"""Participants of which each breaks one promise about their work."""

from functools import partial

import anyio

from tests.conformance.broken import Broken, Changed
from tests.conformance.participants import answer, whole
from triocollect.participant import Sessions, episode_in
from triocollect.protocol.identity import sender_in
from triocollect.protocol.refusals import Code


class NeverOpensItsDoorAgain(Broken):
    shut = False

    async def control(self, scope, verb, call, body, send):
        self.shut = self.shut or verb == "prepare"
        await super().control(scope, verb, call, body, send)

    async def data(self, scope, receive, send):
        if self.shut:
            await anyio.sleep_forever()
        await self.app(scope, receive, send)


class WithADoor(Broken):
    def __init__(self, root):
        super().__init__(root)
        self.closed, self.opened = False, anyio.Event()

    async def control(self, scope, verb, call, body, send):
        await super().control(scope, verb, call, body, send)
        if verb in {"prepare", "hello", "resume"}:
            self.closed = verb == "prepare"
            self.opened.set()
            self.opened = anyio.Event()


class OpensWithoutWakingWhoWaits(WithADoor):
    async def data(self, scope, receive, send):
        if self.closed:
            await anyio.sleep_forever()
        await self.app(scope, receive, send)


class _Innocent(Sessions):
    def served(self):
        return False


class RestoresAlthoughItHasServed(Broken):
    def __init__(self, root):
        super().__init__(root, kept=_Innocent)


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


class LetsWorkInWhileClosed(WithADoor):
    """A server whose routes nobody put behind its admission."""

    async def data(self, scope, receive, send):
        if self.closed:
            await answer(send, 200, {})
        else:
            await self.app(scope, receive, send)


class OpensOnlyWhenCalled(WithADoor):
    """Who waits when the lease ends goes on waiting."""

    async def data(self, scope, receive, send):
        if self.closed:
            await self.opened.wait()
        await self.app(scope, receive, send)


class WorksForNobody(Broken):
    async def data(self, scope, receive, send):
        named = any(name == b"x-rollout-id" for name, _ in scope["headers"])
        more = [] if named else [(b"x-rollout-id", b"nobody")]
        await self.app({**scope, "headers": [*scope["headers"], *more]}, receive, send)


class WorksForALowerEpoch(Broken):
    async def data(self, scope, receive, send):
        await self.app(_without(scope, b"x-collector-epoch"), receive, send)


class DoesNotSayWhatIsRetired(Broken):
    async def data(self, scope, receive, send):
        async def curt(message):
            if message["type"] == "http.response.body":
                message = {**message, "body": message["body"].replace(b"retired_through", b"retired")}
            await send(message)

        async def unsized(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": []}
            await curt(message)

        await self.app(scope, receive, unsized)


class NeverForgets(Broken):
    async def control(self, scope, verb, call, body, send):
        if verb == "forget" and "rollout_ids" in (call or {}):
            call["rollout_ids"] = ["nobody"]
        await super().control(scope, verb, call, body, send)


class PlaysAnewWhatGoesOn(Broken):
    def __init__(self, root):
        super().__init__(root, kind="environment")

    async def data(self, scope, receive, send):
        await self.app(_without(scope, b"x-continued"), receive, send)


class TellsNoRestarts(Changed):
    def __init__(self, root):
        super().__init__(root, mode="restart_only")

    def change(self, verb, call, said):
        if verb == "prepare":
            said["report"]["restarts"] = []


class ServesWhatARestoreReplaced(Broken):
    replaced = frozenset()

    async def control(self, scope, verb, call, body, send):
        if verb == "restore" and call is not None:
            self.replaced = {one["rollout_id"] for one in call.get("scope", ())}
        await super().control(scope, verb, call, body, send)

    async def data(self, scope, receive, send):
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if headers.get("x-rollout-id") in self.replaced and headers["x-rollout-attempt"] == "0":
            await answer(send, 200, {})
        else:
            await self.app(scope, receive, send)


class Hoarding(Sessions):
    async def discard(self, keep):
        if keep is None:
            await super().discard(keep)


def _without(scope, name):
    """The request without this header."""
    return {**scope, "headers": [one for one in scope["headers"] if one[0] != name]}


RunsWhileClosed = partial(whole, kind="environment", asks=False)
AdmitsWithoutAskingAgain = partial(whole, admitted=Hasty)
ExportsNothingUnderWay = partial(whole, kind="environment", kept=Forgetful)
PlaysAnAttemptTwiceAtOnce = partial(whole, kind="environment", alone=False)
GoesOnFromNothing = partial(whole, kind="environment", continues=False)
ExportsNothingOfItsScope = partial(whole, kept=Forgetful)
KeepsWhatNobodyClaims = partial(whole, kept=Hoarding)
