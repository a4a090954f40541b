"""A server whose work is told of elsewhere: each request is a span, and lines of a log say whose it was."""

import argparse
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from triocollect.config.settings import TelemetryConfig
from triocollect.participant.decode import knows
from triocollect.protocol.identity import CAPTURE_KEY, episode_in, sender_in
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import PREFIX
from triocollect.telemetry.here import is_recorded, on_behalf, record, recording, served
from triocollect.telemetry.logs import Records, Whose, bound
from triocollect.telemetry.made import TRACEPARENT, Attributes
from triocollect.telemetry.recorder import LAST_WORDS_S, start

_KEYED: Final = "/ng-rollout/"  # a capture key follows, and then a route
_BROKEN: Final = 500
_NOWHERE: Final = "(no route)"
_TRACEPARENT: Final = TRACEPARENT.encode()


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What a server process is told of telemetry; `deployment.plan` says it."""
    parser.add_argument("--telemetry", choices=("none", "otlp"), default="none")
    parser.add_argument("--prometheus", metavar="HOST:PORT")
    parser.add_argument("--log-json", type=Path, metavar="FILE")


def flags_of_workers(given: argparse.Namespace) -> list[str]:
    """The same for the workers of a server; that server's port is the coordinator's alone."""
    log = [] if given.log_json is None else ["--log-json", str(given.log_json)]
    return ["--telemetry", given.telemetry, *log]


@contextmanager
def observed(given: argparse.Namespace, tell: Callable[[str], None]) -> Iterator[None]:
    """The body serves, and that is told of as the flags ask. Raises UsageError."""
    settings = TelemetryConfig(export=given.telemetry, prometheus=given.prometheus, log_json=given.log_json)
    if settings == TelemetryConfig():
        yield
        return
    recorder = start(settings, service=f"triocollect.{given.kind}", instance=given.name, tell=tell)
    root, records = logging.getLogger(), None
    if (log := recorder.recording.log) is not None:
        root.addHandler(records := Records(log))
    try:
        with record(recorder.recording):
            yield
    finally:
        if records is not None:
            root.removeHandler(records)
        recorder.close(LAST_WORDS_S)


def observe(app: Starlette) -> None:
    """Have an application's work told of, if anybody records here; the next server hears of the caller's."""
    if is_recorded():
        app.add_middleware(Observed, routes=tuple(route for route in app.routes if isinstance(route, Route)))
    else:
        app.add_middleware(Unobserved)


def flush_s() -> float:
    """How much later a server may end, for what is told of it."""
    return LAST_WORDS_S if is_recorded() else 0.0


class Unobserved:
    """Middleware where nobody records: what is asked of other servers is work of whoever asked here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] == "http" and any(name == _TRACEPARENT for name, _ in scope["headers"]):
            with on_behalf(_text_of(scope["headers"])):
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Observed:
    """Middleware around all others, so that control calls are told of, too. Work is what is posted.

    `routes`: of the application; what goes elsewhere has one name for all, as callers may ask for anything.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[Route] = ()) -> None:
        self._app: Final = app
        self._routes: Final = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http" or scope["method"] != "POST":  # what only looks is no work
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        headers = _text_of(scope["headers"])
        whose = _whose(headers, headers.get(CAPTURE_KEY, _key_in(scope["path"])))
        name = f"POST {self._route(scope)}"

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with bound(whose), served(name, headers, _about(whose)) as span:
            try:
                await self._app(scope, receive, answer)
            except Exception:
                status = status or _BROKEN  # so it is answered around this
                raise
            finally:
                if status:
                    span.note({"http.response.status_code": status})
                _say(f"{name}: {status or 'no answer'} after {time.monotonic() - began:.3f} s", status)

    def _route(self, scope: Scope) -> str:
        """Without what tells one rollout, or one tool, from another."""
        path: str = scope["path"]
        if path.startswith(f"{PREFIX}/") and knows(path.removeprefix(f"{PREFIX}/")):
            return path
        found = (route.path for route in self._routes if route.matches(scope)[0] is Match.FULL)
        return next(found, _NOWHERE)


def _say(said: str, status: int) -> None:
    if (log := recording().log) is not None:
        log.write("served", said, "info" if 0 < status < _BROKEN else "warning")


def _text_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _key_in(path: str) -> str | None:
    """The capture key that a path begins with."""
    return path.removeprefix(_KEYED).partition("/")[0] if path.startswith(_KEYED) else None


def _whose(headers: Mapping[str, str], key: str | None) -> Whose:
    """As far as it can be read: the application refuses what cannot."""
    episode, sender = None, None
    with suppress(ValueError):
        episode = episode_in(headers) if key is None else EpisodeId.parse(key)
    with suppress(ValueError):
        sender = sender_in(headers)
    return Whose(
        run=None if sender is None else sender.run,
        epoch=None if sender is None else sender.epoch,
        rollout_id=None if episode is None else episode.rollout_id,
        attempt=None if episode is None else episode.attempt,
    )


def _about(whose: Whose) -> Attributes:
    if whose.rollout_id is None or whose.attempt is None:
        return {}
    return {"triocollect.rollout_id": whose.rollout_id, "triocollect.attempt": whose.attempt}
