"""A server whose work is told of elsewhere: each request is a span, and lines of a log say whose it was."""

import argparse
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from triocollect.config.settings import TelemetryConfig
from triocollect.protocol.identity import CAPTURE_KEY, episode_in, sender_in
from triocollect.protocol.ids import EpisodeId
from triocollect.telemetry.here import is_recorded, record, recording, served
from triocollect.telemetry.logs import Records, Whose, bound
from triocollect.telemetry.made import Attributes
from triocollect.telemetry.recorder import LAST_WORDS_S, start

_KEYED: Final = "/ng-rollout/"  # a capture key follows, and then a route
_BROKEN: Final = 500


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
    if (log := recorder.recording.log) is not None:
        logging.getLogger().addHandler(Records(log))
    try:
        with record(recorder.recording):
            yield
    finally:
        recorder.close(LAST_WORDS_S)


def observe(app: Starlette) -> None:
    """Have an application's work told of, if anybody records here."""
    if is_recorded():
        app.add_middleware(Observed)


def flush_s() -> float:
    """How much later a server may end, for what is told of it."""
    return LAST_WORDS_S if is_recorded() else 0.0


class Observed:
    """Middleware around all others, so that control calls are told of, too. Work is what is posted."""

    def __init__(self, app: ASGIApp) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http" or scope["method"] != "POST":  # what only looks is no work
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        headers = _text_of(scope["headers"])
        route, key = _parted(scope["path"])
        whose = _whose(headers, headers.get(CAPTURE_KEY, key))
        name = f"POST {route}"

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                span.note({"http.response.status_code": status})
            await send(message)

        with bound(whose), served(name, headers, _about(whose)) as span:
            await self._app(scope, receive, answer)
            if (log := recording().log) is not None:
                level = "info" if 0 < status < _BROKEN else "warning"
                said = f"{name}: {status or 'no answer'} after {time.monotonic() - began:.3f} s"
                log.write("served", said, level)


def _text_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _parted(path: str) -> tuple[str, str | None]:
    """A route without what tells one rollout from another, and that."""
    if not path.startswith(_KEYED):
        return path, None
    key, _, rest = path.removeprefix(_KEYED).partition("/")
    return f"{_KEYED}{{key}}/{rest}", key


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
