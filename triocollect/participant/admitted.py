"""An admission around a whole application: each request of an episode is one piece of work."""

from collections.abc import Collection, Iterable
from typing import Final, cast, final

import msgspec

from triocollect.participant.admission import Admission, Work
from triocollect.participant.asgi import App, Message, Receive, Scope, Send
from triocollect.protocol.identity import Sender, episode_in, sender_in
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, Refusal, RefusalBody, status_of

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@final
class Admitted:
    """Middleware inside the control plane: no handler has to know that there are checkpoints.

    A request names its episode in `x-rollout-id` and `x-rollout-attempt`; one that does not is refused, for
    nobody could say whether a checkpoint has its effects. Every request but those that only read waits while
    a checkpoint is open, keeps the next one waiting until it is answered, and is cancelled when its attempt
    is retired. `replayable` are paths of requests that change nothing: they keep no checkpoint waiting.
    `passing` are paths of requests that end a session and do nothing else: they never wait, since who sends
    one may be on its way out, and are refused to nobody; a commit is not made in the middle of one.
    """

    def __init__(
        self,
        app: App,
        admission: Admission,
        replayable: Collection[str] = (),
        passing: Collection[str] = (),
    ) -> None:
        self._app: Final = app
        self._admission: Final = admission
        self._replayable: Final = frozenset(replayable)
        self._passing: Final = frozenset(passing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http" or scope["method"] in _READING:
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])
        headers = _text_of(cast("Iterable[tuple[bytes, bytes]]", scope["headers"]))  # by ASGI
        try:
            episode, sender = episode_in(headers), sender_in(headers)
        except ValueError as fault:
            await _refuse(Refusal(code=Code.BAD_REQUEST, detail=str(fault)), send)
            return
        if episode is None:
            detail = f"{path}: no x-rollout-id says whose work this is"
            await _refuse(Refusal(code=Code.ROLLOUT_ID_REQUIRED, detail=detail), send)
            return
        work = await self._let_in(path, episode, sender)
        if isinstance(work, Refusal):
            await _refuse(work, send)
            return
        answering = _Answering(send)
        with work:
            await self._app(scope, receive, answering)
            return
        if not answering.begun and (late := self._admission.marks.refusal(episode)) is not None:
            await _refuse(late, send)

    async def _let_in(self, path: str, episode: EpisodeId, sender: Sender | None) -> Work | Refusal:
        why = f"{path} is under way"
        if path in self._passing:
            return Work(self._admission, episode, why)  # not `enter`: a fresh process has served nobody by it
        return await self._admission.admit(episode, None if path in self._replayable else why, sender=sender)


@final
class _Answering:
    """`send`, and whether anything was sent."""

    def __init__(self, send: Send) -> None:
        self.begun = False
        self._send: Final = send

    async def __call__(self, message: Message) -> None:
        self.begun = True
        await self._send(message)


def _text_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


async def _refuse(why: Refusal, send: Send) -> None:
    body = msgspec.json.encode(RefusalBody(why))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status_of(Code(why.code)), "headers": headers})
    await send({"type": "http.response.body", "body": body})
