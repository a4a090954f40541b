"""A log of JSON lines. Every line says for which run, epoch, operation, rollout and attempt it is.

What belongs to one piece of work is bound around it (`bound`), so that whoever writes a line need not know.
A file may have several writers: each line is one write at its end.
"""

import datetime as dt
import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

import msgspec

from triocollect.errors import UsageError
from triocollect.protocol.ids import EpisodeId


class Whose(msgspec.Struct, frozen=True):
    """Whose work it is, as far as it is anybody's."""

    run: str | None = None
    epoch: int | None = None
    operation: int | None = None
    rollout_id: str | None = None
    attempt: int | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `time`: UTC, ISO 8601. `service`: which process, `event`: what kind of thing happened.

    `run`: of the checkpoint directory, where there is one, else of the output.
    """

    time: str
    level: str
    service: str
    event: str
    message: str
    run: str | None
    epoch: int | None
    operation: int | None
    rollout_id: str | None
    attempt: int | None


# A pipe holds up nobody, neither one that nobody reads nor a full one. To a file it makes no difference.
_APPENDING: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK

NOBODYS: Final = Whose()
_whose: Final = ContextVar("whose", default=NOBODYS)


def whose() -> Whose:
    """Whose work this task does now."""
    return _whose.get()


def bind(run: str, epoch: int | None = None, operation: int | None = None) -> None:
    """From here on this task, and all that it starts, works for these."""
    _whose.set(Whose(run, epoch, operation))


def bind_episode(episode: EpisodeId) -> None:
    """From here on this task, and all that it starts, works for this episode."""
    now = _whose.get()
    _whose.set(Whose(now.run, now.epoch, now.operation, episode.rollout_id, episode.attempt))


@contextmanager
def during(operation: int) -> Iterator[None]:
    """The body is this operation of the epoch."""
    now = _whose.get()
    with bound(Whose(now.run, now.epoch, operation, now.rollout_id, now.attempt)):
        yield


@contextmanager
def bound(whose: Whose) -> Iterator[None]:
    """The body is work of these."""
    token = _whose.set(whose)
    try:
        yield
    finally:
        _whose.reset(token)


class JsonLog:
    """Appends lines to a file. One that cannot be written is told of once, and nothing more is written."""

    def __init__(self, path: Path, service: str, tell: Callable[[str], None]) -> None:
        """Makes the folder and the file. Raises UsageError where that cannot be."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd: int | None = os.open(path, _APPENDING, 0o600)
        except OSError as error:
            why = "nobody reads from this pipe" if error.errno == errno.ENXIO else error.strerror
            raise UsageError(f"--log-json {path}: cannot be opened: {why}; name another file") from error
        self._path: Final = path
        self._service: Final = service
        self._tell: Final = tell

    def write(
        self,
        event: str,
        message: str,
        level: str = "info",
        episode: EpisodeId | str | None = None,
        operation: int | None = None,
    ) -> None:
        """A line; `episode`, or a rollout's id alone, and `operation` where they are not what is bound."""
        if self._fd is None:
            return
        about = _whose.get()
        rollout_id, attempt = _named(about, episode)
        line = Line(
            time=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            level=level,
            service=self._service,
            event=event,
            message=message,
            run=about.run,
            epoch=about.epoch,
            operation=about.operation if operation is None else operation,
            rollout_id=rollout_id,
            attempt=attempt,
        )
        data = msgspec.json.encode(line) + b"\n"
        fault = "only a part of a line was taken"
        try:
            if os.write(self._fd, data) == len(data):
                return
        except BlockingIOError:
            fault = "whoever reads it is too slow"
        except OSError as error:
            fault = str(error.strerror)
        self.close()
        self._tell(f"the log {self._path} ends here, and nothing else does: {fault}")

    def close(self) -> None:
        """No more lines."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _named(about: Whose, episode: EpisodeId | str | None) -> tuple[str | None, int | None]:
    match episode:
        case None:
            return about.rollout_id, about.attempt
        case str():
            return episode, None
        case EpisodeId():
            return episode.rollout_id, episode.attempt


def message_of(record: logging.LogRecord) -> str:
    """What is said; arguments that do not fit their message are no reason to fail anybody."""
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)


class Records(logging.Handler):
    """Lines of what the standard library's `logging` is told."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(logging.INFO)
        self._log: Final = log

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging`."""
        level = "warning" if record.levelno < logging.ERROR else "error"
        self._log.write(
            record.name, message_of(record), "info" if record.levelno < logging.WARNING else level
        )
