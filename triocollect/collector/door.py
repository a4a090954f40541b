"""The library's door: collect rows from a program of your own.

report = await triocollect.collect(triocollect.load_config({"input": "rows.jsonl", "output": "out.jsonl"}))

async with triocollect.running(config) as run:
    async for result in run:
        ...
print(run.report)
"""

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import trio

from triocollect.collector.fleet import HandOver, Result
from triocollect.collector.run import Order, run
from triocollect.collector.send import Dispatch
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
    hand_over = None if on_result is None else functools.partial(_call, on_result)
    return await _collect(config, dispatch=dispatch, hand_over=hand_over, listener=listener, signals=signals)


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


class Run:
    """A run under way: iterate over its results as they are written; `report` is there at the end."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.fault: Exception | None = None  # what ended the run; raised at the end of the block
        self._results: AsyncIterator[Result] | None = None

    def __aiter__(self) -> AsyncIterator[Result]:
        """Results in the order of their ends. A slow reader holds new rows back; written ones are written."""
        assert self._results is not None
        return self._results


@contextlib.asynccontextmanager
async def running(config: Config, *, dispatch: Dispatch | None = None) -> AsyncIterator[Run]:
    """A run to iterate over. Leaving early cancels the rows in flight; the next run continues the rest.

    Raises what `collect` raises, from the iteration or at the end of the block.
    """
    under_way = Run()
    async with _results(under_way, config, dispatch) as results:
        under_way._results = results.__aiter__()  # noqa: SLF001  # its maker
        yield under_way
    if under_way.fault is not None:
        raise under_way.fault


@trio.as_safe_channel
async def _results(under_way: Run, config: Config, dispatch: Dispatch | None) -> AsyncGenerator[Result, None]:
    """The one generator with a nursery inside: as_safe_channel gives it a task and an end of its own."""
    send, receive = trio.open_memory_channel[Result](0)

    async def collect_all() -> None:
        async with send:
            try:
                under_way.report = await _collect(config, dispatch=dispatch, hand_over=send.send)
            except Exception as error:  # noqa: BLE001  # raised again where the caller can see it plain
                under_way.fault = error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_all)
        async with receive:
            async for result in receive:
                yield result


async def _collect(
    config: Config,
    *,
    dispatch: Dispatch | None,
    hand_over: HandOver | None,
    listener: Listener | None = None,
    signals: bool = False,
) -> Report:
    if not trio.lowlevel.in_trio_run():
        raise UsageError(
            "collect runs under trio; from asyncio: await asyncio.to_thread(triocollect.collect_sync, config)"
        )
    if config.checkpoint is not None and dispatch is not None:
        raise UsageError(
            "checkpoints are taken of rows that go to servers, not of a dispatch function of your own"
        )
    transport = Client(
        connect_timeout_s=config.dispatch.connect_timeout_s, max_reply_bytes=config.dispatch.max_reply_bytes
    )
    try:
        return await run(
            Order(
                config=config,
                transport=transport,
                listener=listener or _nobody,
                dispatch=dispatch,
                hand_over=hand_over,
                signals=signals,
            )
        )
    except BaseExceptionGroup as group:
        raise reason_of(group) from group
    finally:
        with trio.move_on_after(_CLOSE_GRACE_S, shield=True):
            await transport.aclose()


async def _call(on_result: Callable[[Result], None], result: Result) -> None:
    on_result(result)


def _nobody(event: Event) -> None:
    """Nobody listens."""
