"""A run that is told of elsewhere: its spans, its metrics, its log."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio
from attrs import evolve

from triocollect.checkpoint.inbox import Inbox
from triocollect.collector.setup import Setup
from triocollect.config.settings import TelemetryConfig
from triocollect.events import Event, Note
from triocollect.telemetry.here import record
from triocollect.telemetry.recorder import Recorder, start

FLUSH_S: Final = 2.0  # the longest wait at the end for what is not sent yet
_LEAST_FLUSH_S: Final = 0.1  # also where the grace is used up


@asynccontextmanager
async def observed(setup: Setup) -> AsyncIterator[Setup]:
    """The setup of a run that tells what its settings ask for. Raises UsageError where that cannot be.

    Whatever becomes of what is told, the run is the same; it ends a little later, at most FLUSH_S, and within
    its grace.
    """
    settings = setup.config.telemetry
    if settings == TelemetryConfig():
        yield setup
        return
    recorder = start(settings, service="triocollect", instance="collector", tell=_teller(setup))
    async with recorded(setup, recorder) as told:
        yield told


@asynccontextmanager
async def recorded(setup: Setup, recorder: Recorder) -> AsyncIterator[Setup]:
    """The setup of a run that this recorder hears of; it is closed at the end."""
    inboxes = list[Inbox]()

    def tell(event: Event) -> None:
        setup.listener(event)
        recorder.listen(event)

    def meet(inbox: Inbox) -> None:
        inboxes.append(inbox)
        if setup.orders is not None:
            setup.orders(inbox)

    try:
        with record(recorder.recording):
            yield evolve(setup, listener=tell, headers=recorder.headers, orders=meet)
    finally:
        with trio.CancelScope(shield=True):  # bounded inside, but for a hung disk under the log
            await trio.to_thread.run_sync(recorder.close, _left_s(inboxes))


def _left_s(inboxes: list[Inbox]) -> float:
    """How long the end may take: no longer than what is left of the grace of a run that was told to stop."""
    ends = [inbox.stop_by for inbox in inboxes if inbox.stop_by is not None]
    if any(inbox.is_left for inbox in inboxes):
        return _LEAST_FLUSH_S
    left_s = min(ends, default=math.inf) - trio.current_time()
    return min(FLUSH_S, max(_LEAST_FLUSH_S, left_s / 2))


def _teller(setup: Setup) -> Callable[[str], None]:
    token = trio.lowlevel.current_trio_token()

    def tell(text: str) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(setup.tell, Note(text, "warning"))

    return tell
