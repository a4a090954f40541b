"""For a command that has something to do before a signal ends it: servers hear a goodbye, children end."""

import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import FrameType
from typing import Final, TypeVar

import trio

from triocollect.dispositions import nothing
from triocollect.errors import reason_of

BY_A_SIGNAL: Final = 128  # and its number, as shells have an exit code
_HEARD: Final = (signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")


def run_until_told(work: Callable[[], Awaitable[T]]) -> T | signal.Signals:
    """Run it to its end, or until Ctrl-C, TERM or HUP, which cancels it; which of them came.

    While it cleans up TERM and HUP change nothing more: `timeout` sends its own twice. One that is ignored,
    as nohup has it, stays so.
    """
    heard = [number for number in _HEARD if signal.getsignal(number) is not signal.SIG_IGN]
    try:
        return trio.run(_until_told, work, heard)
    except BaseException as fault:
        if isinstance(reason_of(fault), KeyboardInterrupt):
            return signal.SIGINT
        raise


async def _until_told(
    work: Callable[[], Awaitable[T]], heard: Sequence[signal.Signals]
) -> T | signal.Signals:
    if not heard:
        return await work()
    told: list[T | signal.Signals] = []
    with trio.open_signal_receiver(*heard) as arrivals:
        async with trio.open_nursery() as listening:
            with trio.CancelScope() as working:

                async def listen() -> None:
                    async for number in arrivals:
                        told.append(signal.Signals(number))
                        working.cancel()

                listening.start_soon(listen)
                told.insert(0, await work())
            listening.cancel_scope.cancel()
    return told[0]


@contextlib.contextmanager
def leaving_in_order() -> Iterator[None]:
    """Have TERM and HUP raise SystemExit, as a Ctrl-C raises, so that what stands around the block is done.

    For what is neither in trio nor importing. Again, they change nothing; one that is ignored stays so.
    """
    before = {number: signal.getsignal(number) for number in _HEARD}
    heard = [number for number in _HEARD if before[number] is signal.SIG_DFL]

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in heard:
            signal.signal(each, nothing)
        raise SystemExit(BY_A_SIGNAL + number)

    for number in heard:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
