"""One server as a process: its application on hypercorn's trio worker, and when it ends."""

import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Final, TypeAlias, cast

import msgspec
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect

from triocollect.errors import UsageError
from triocollect.participant.asgi import App
from triocollect.participant.attendance import Attendance
from triocollect.protocol.handed_down import BACKLOG, TOLD_AFTER_S, waited, waiting
from triocollect.servers import KINDS
from triocollect.servers.observed import flush_s, observe
from triocollect.servers.replies import HEALTH, gone

Ending: TypeAlias = Callable[[], Awaitable[None]]  # returns when the server is to end

KEEP_ALIVE_S: Final = 75
MAX_HEAD_BYTES: Final = 1 << 20
LAST_WORDS_S: Final = 2.0
GRACE_S: Final = 3.0  # for requests in flight when a server ends by itself
LAST_RESORT_S: Final = 0.1  # from the end of the owner, after which the kernel ends what still stays
STDIN: Final = 0


def make_app(kind: str, settings: bytes) -> Starlette:
    """The application of one kind from its settings as JSON. Raises UsageError for what it does not take."""
    if kind not in KINDS:
        raise UsageError(f"there is no server {kind!r}; there are: {', '.join(KINDS)}")
    module = import_module(f"triocollect.servers.{kind}.app")
    try:
        decoded = msgspec.json.decode(settings, type=getattr(module, f"{kind.capitalize()}Settings"))
    except msgspec.MsgspecError as error:
        raise UsageError(f"settings of the {kind} server: {error}") from error
    app: Starlette = module.build_app(decoded)
    app.router.routes.extend(HEALTH)
    app.add_exception_handler(ClientDisconnect, gone)
    observe(app)
    return app


async def serve_app(
    app: App,
    bind: str,
    until: Ending,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on `host:port` or `fd://N` until `until` returns; requests in flight then have GRACE_S."""
    config = Config()
    config.bind = [bind]
    config.backlog = BACKLOG
    config.keep_alive_timeout = KEEP_ALIVE_S
    config.keep_alive_max_requests = 1 << 62
    config.h11_max_incomplete_size = MAX_HEAD_BYTES
    config.graceful_timeout = GRACE_S
    config.accesslog = None
    config.loglevel = "WARNING"
    framework = cast("ASGIFramework", app)  # hypercorn spells ASGI's messages out, starlette does not
    await serve(framework, config, shutdown_trigger=until, task_status=task_status, mode="asgi")


async def nobody_needs(attendance: Attendance | None) -> None:
    """Return when no collector is at work here, or when the last one has cut what it stops with.

    At once where the server takes no part in checkpoints. A little later than that commit was confirmed: its
    answer may be lost, and asked for again.
    """
    while attendance is not None and attendance.needed:
        await attendance.over()
        await trio.sleep(LAST_WORDS_S)


def attendance_of(app: Starlette) -> Attendance | None:
    """Whether a collector needs this server; None where it takes no part in checkpoints."""
    attendance: Attendance | None = getattr(app.state, "attendance", None)
    return attendance


async def owner_gone(until_free: Ending, last_resort_s: float = LAST_RESORT_S) -> None:
    """Wait for the end of standard input, a pipe that only the owner of this process holds.

    A line on it asks the process to end by itself, once `until_free` returns. `last_resort_s` after its end
    an alarm stands behind this: nothing that still runs here is of use to anybody.
    """
    async with trio.open_nursery() as nursery, trio.lowlevel.FdStream(os.dup(STDIN)) as lifeline:
        while await lifeline.receive_some():
            nursery.start_soon(_then_leave, until_free, nursery.cancel_scope)
        signal.setitimer(signal.ITIMER_REAL, last_resort_s + flush_s())
        nursery.cancel_scope.cancel()


async def told_to_end(until_free: Ending, grace_s: float, tell: Callable[[str], None]) -> None:
    """Wait for SIGTERM or SIGINT, then for `until_free`, at most `grace_s` or until it is told again.

    `tell` hears what is waited for.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as arrivals:
        await anext(arrivals)
        with trio.move_on_after(grace_s) as patience:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_then_leave, until_free, nursery.cancel_scope)
                with trio.move_on_after(TOLD_AFTER_S) as soon:
                    await anext(arrivals)
                if soon.cancelled_caught:
                    tell(waiting(grace_s))
                    await anext(arrivals)
                nursery.cancel_scope.cancel()
        if patience.cancelled_caught and grace_s:
            tell(waited(grace_s))


async def _then_leave(until_free: Ending, waiting: trio.CancelScope) -> None:
    await until_free()
    waiting.cancel()


def run_child(app: Starlette, fd: int) -> None:
    """Serve on a listening socket that the owner handed down, for as long as the owner lives."""
    trio.run(_serve_owner, app, f"fd://{fd}")


async def _serve_owner(app: Starlette, bind: str) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_app, app, bind, trio.sleep_forever)
        await owner_gone(partial(nobody_needs, attendance_of(app)))
        nursery.cancel_scope.cancel()


def run_alone(
    app: Starlette, bind: str, grace_s: float = 0.0, tell: Callable[[str], None] = lambda _: None
) -> None:
    """Serve on `host:port` or `fd://N` until SIGTERM or SIGINT, and for `grace_s` as long as it is needed."""
    trio.run(
        serve_app, app, bind, partial(told_to_end, partial(nobody_needs, attendance_of(app)), grace_s, tell)
    )
