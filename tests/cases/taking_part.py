"""Servers that take part in checkpoints and keep a text of each episode, in a thread of their own."""

import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Self

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.cases.participant import PATIENCE_S, Received
from tests.participant.states import records_of
from triocollect.errors import StateError
from triocollect.participant import (
    Admission,
    ControlPlane,
    EpisodeId,
    Participant,
    Record,
    decode_state,
    episode_of,
)
from triocollect.protocol.refusals import Code

TOKEN: Final = "s3cret"


class Texts(Participant[Record]):
    """An episode is a text, at a boundary all the time."""

    mode = "exported"

    def __init__(self, kind, instance):
        super().__init__(kind, instance, Admission(), Record)
        self.texts: dict[EpisodeId, object] = {}
        self.unclaimed: set[EpisodeId] = set()
        self.cut: trio.Event | None = None  # somebody waits for the end of a pause
        self.stopped: list[EpisodeId] = []
        self.refuses: str | None = None  # to install anything, and why

    def open(self):
        if self.cut is not None:
            self.cut.set()

    def export(self, scope):
        return records_of(self.kind, self.texts, scope)

    async def install(self, records, becomes):
        if self.refuses is not None:
            raise StateError(self.refuses)
        await self.discard(None)
        taken = {becomes[episode_of(one)]: decode_state(one.state) for one in records}
        self.texts |= taken
        self.unclaimed |= taken.keys()
        return list(taken)

    async def discard(self, keep):
        for episode in self.unclaimed - (keep or frozenset()):
            self.unclaimed.remove(episode)
            del self.texts[episode]

    async def stop(self, episodes):
        await super().stop(episodes)
        self.stopped += episodes
        for episode in filter(self.admission.marks.retired, [*self.texts]):
            self.unclaimed.discard(episode)
            del self.texts[episode]

    def restored_pending(self):
        return len(self.unclaimed)


class Deployment:
    """An environment `env` and a model `model` until the block ends.

    `requests` are those that were let in. With a `signal` it is sent to `pid` as soon as the last row that is
    expected has come, and none is answered before the checkpoint that it asks for is over.
    """

    def __init__(self, root: Path) -> None:
        self.requests: list[Received] = []
        self.text = ""
        self.signal: signal.Signals | None = None
        self.url = self.model_url = ""
        self.pid: Callable[[], int] = os.getpid
        self._environment, self._model = Texts("environment", "env"), Texts("model", "model")
        self._root, self._expected = root, 0
        self._ready = threading.Event()
        self._leave: Callable[[], None] = self._ready.clear
        self._thread = threading.Thread(target=trio.run, args=(self._serve,))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S), "the servers did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        self._thread.join(PATIENCE_S)

    def begin(self, text: str, number: signal.Signals | None, rows: int) -> None:
        """Of another run, of so many rows."""
        self.requests, self.text, self.signal, self.pid = [], text, number, os.getpid
        self._expected = rows
        self._environment.cut, self._environment.stopped = None, []

    def refuse_to_install(self, why: str) -> None:
        """The model server does."""
        self._model.refuses = why

    @property
    def retired(self) -> list[EpisodeId]:
        """What the environment was told to stop."""
        return self._environment.stopped

    async def _serve(self):
        token, over = trio.lowlevel.current_trio_token(), trio.Event()
        self._leave = partial(token.run_sync_soon, over.set)
        run = Route("/run", self._run, methods=["POST"])
        async with trio.open_nursery() as nursery:
            for hooks, routes in ((self._environment, [run]), (self._model, [])):
                app = ControlPlane(
                    Starlette(routes=routes), hooks, hooks.admission, token=TOKEN, root=self._root
                )
                config = Config()
                config.bind, config.graceful_timeout, config.loglevel = ["127.0.0.1:0"], 0.1, "CRITICAL"
                served = partial(serve, app, config, shutdown_trigger=over.wait, mode="asgi")
                (url,) = await nursery.start(served)
                self.url, self.model_url = self.url or url, url
            self._ready.set()

    async def _run(self, request: Request) -> Response:
        received = Received(0, "POST", "/run", dict(request.headers), await request.body())
        here, admission = self._environment, self._environment.admission
        task, rollout, attempt = received.episode
        episode = EpisodeId(f"{task}-{rollout}", attempt)
        admission.end_expired_lease()
        if admission.closed:
            return _refused(Code.CHECKPOINT_OPEN)
        if (refusal := admission.refusal(episode)) is not None:
            return _refused(refusal.code)
        if received.is_continued:
            if episode not in here.unclaimed:
                return _refused(Code.NOT_RESTORED)
            here.unclaimed.remove(episode)
        self.requests.append(received)
        with admission.enter(episode, None):
            here.texts.setdefault(episode, "begun")
            await self._pause()
            await admission.until_open()
            return JSONResponse({"reward": 1.0, "text": f"{self.text} {here.texts.pop(episode)}"})
        return _refused(Code.STALE_ATTEMPT)

    async def _pause(self):
        """Until the checkpoint is over that the signal asks for."""
        if self.signal is None:
            return
        if self._environment.cut is None:
            self._environment.cut = trio.Event()
        if len(self.requests) == self._expected:
            os.kill(self.pid(), self.signal)
        await self._environment.cut.wait()


def _refused(code: Code) -> Response:
    return JSONResponse({"error": {"code": code, "detail": "not now"}}, status_code=409)
