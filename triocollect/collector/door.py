"""The library's door: collect rows from a program of your own.

report = await triocollect.collect(triocollect.load_config({"input": "rows.jsonl", "output": "out.jsonl"}))

async with triocollect.running(config) as run:
    async for result in run:
        ...
        await run.checkpoint()  # at any moment, from any task, where the config names a checkpoint directory
print(run.report)
"""

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import cast

import trio
from msgspec.structs import replace

from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import RUN_ENDED, NotPublished, Published, nothing_tried
from triocollect.collector.fleet import Result
from triocollect.collector.observed import observed
from triocollect.collector.run import run
from triocollect.collector.send import Dispatch
from triocollect.collector.setup import Setup
from triocollect.config.settings import Config
from triocollect.errors import UsageError, reason_of
from triocollect.events import Event, Listener
from triocollect.report.run_report import Report
from triocollect.transport import Client

_CLOSE_GRACE_S = 2.0


async def collect(
    config: Config,
    *,
    dispatch: Dispatch | None = None,
    on_result: Callable[[Result], None] | None = None,
    signals: bool = False,
    listener: Listener | None = None,
) -> Report:
    """Collect all rows and return the report. Run it under trio.

    `dispatch(row, attempt)` sends a row in your own way and returns the reply, a JSON object or its bytes;
    then no server is needed. `on_result` hears of every row after it is written, `listener` of every event.
    `signals`: TERM, USR1 and INT are heard, in the main thread and with a checkpoint directory only. Raises
    the errors of `triocollect.errors`; a cancelled collect leaves a folder from which the same call goes on.
    """

    def setup(transport: Client) -> Setup:
        return Setup(
            config=config,
            transport=transport,
            listener=listener or _nobody,
            dispatch=dispatch,
            hand_over=None if on_result is None else functools.partial(_call, on_result),
            signals=signals,
        )

    return await _collect(config, setup)


def collect_sync(
    config: Config,
    *,
    dispatch: Dispatch | None = None,
    on_result: Callable[[Result], None] | None = None,
    listener: Listener | None = None,
) -> Report:
    """`collect` in a trio.run of its own: for plain programs, and for a thread of an asyncio program."""
    return trio.run(
        functools.partial(collect, config, dispatch=dispatch, on_result=on_result, listener=listener)
    )


class _Asked:
    """Where orders of the library go: they wait until the run takes some, or has ended."""

    def __init__(self) -> None:
        self._inbox: Inbox | None = None
        self._met = trio.Event()  # the inbox is there, or will never be

    def meet(self, inbox: Inbox) -> None:
        """The run takes orders from here on."""
        self._inbox = inbox
        self._met.set()

    def over(self) -> None:
        """The run has ended, or never began."""
        self._met.set()

    async def checkpoint(self) -> Published | NotPublished:
        await self._met.wait()
        return nothing_tried(RUN_ENDED) if self._inbox is None else await self._inbox.ask()


class Run:
    """A run under way: iterate over its results as they are written; `report` is there at the end."""

    def __init__(self, asked: _Asked | None) -> None:
        self.report: Report | None = None
        self.fault: Exception | None = None  # what ended the run; raised at the end of the block
        self._results: AsyncIterator[Result] | None = None
        self._asked = asked

    def __aiter__(self) -> AsyncIterator[Result]:
        """Results in the order of their ends. A slow reader holds new rows back; written ones are written."""
        assert self._results is not None
        return self._results

    async def checkpoint(self) -> Published | NotPublished:
        """Take a checkpoint, go on, and say what came of it; a run that still starts up takes it when it can.

        All who ask before one has begun share it. Who asks while one is under way gets one more: that one may
        have been cut before. Raises UsageError where the run has no checkpoint directory.
        """
        if self._asked is None:
            raise UsageError("this run takes no checkpoints: its config names no checkpoint_dir")
        return await self._asked.checkpoint()


@contextlib.asynccontextmanager
async def running(config: Config, *, dispatch: Dispatch | None = None) -> AsyncIterator[Run]:
    """A run to iterate over. Leaving early cancels the rows in flight; the next run continues the rest.

    Raises what `collect` raises, from the iteration or at the end of the block.
    """
    asked = None if config.checkpoint is None else _Asked()
    under_way = Run(asked)
    async with _results(under_way, asked, config, dispatch) as results:
        await anext(results)
        under_way._results = cast("AsyncIterator[Result]", results)  # noqa: SLF001  # its maker
        yield under_way
    if under_way.fault is not None:
        raise under_way.fault


@trio.as_safe_channel
async def _results(
    under_way: Run, asked: _Asked | None, config: Config, dispatch: Dispatch | None
) -> AsyncGenerator[Result | None, None]:
    """The one generator with a nursery inside: as_safe_channel gives it a task and an end of its own.

    It begins when its first value is asked for. That is None: the run must not wait for somebody to iterate.
    """
    send, receive = trio.open_memory_channel[Result](0)

    def setup(transport: Client) -> Setup:
        orders = None if asked is None else asked.meet
        return Setup(
            config=config,
            transport=transport,
            listener=_nobody,
            dispatch=dispatch,
            hand_over=send.send,
            orders=orders,
        )

    async def collect_all() -> None:
        async with send:
            try:
                under_way.report = await _collect(config, setup)
            except Exception as error:  # noqa: BLE001  # raised again where the caller can see it plain
                under_way.fault = error
            finally:
                if asked is not None:
                    asked.over()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_all)
        yield None
        async with receive:
            async for result in receive:
                yield result


async def _collect(config: Config, setup: Callable[[Client], Setup]) -> Report:
    if not trio.lowlevel.in_trio_run():
        raise UsageError(
            "collect runs under trio; from asyncio: await asyncio.to_thread(triocollect.collect_sync, config)"
        )
    transport = Client(
        connect_timeout_s=config.dispatch.connect_timeout_s, max_reply_bytes=config.dispatch.max_reply_bytes
    )
    made = setup(transport)
    if config.checkpoint is not None and made.dispatch is not None:
        raise UsageError(
            "checkpoints are taken of rows that go to servers, not of a dispatch function of your own"
        )
    try:
        async with observed(made) as told:
            report = await run(told)
            before = len(made.warnings)
        return replace(report, notes=(*report.notes, *made.warnings[before:]))
    except BaseExceptionGroup as group:
        raise reason_of(group) from group
    finally:
        with trio.move_on_after(_CLOSE_GRACE_S, shield=True):
            await transport.aclose()


async def _call(on_result: Callable[[Result], None], result: Result) -> None:
    on_result(result)


def _nobody(event: Event) -> None:
    """Nobody listens."""
