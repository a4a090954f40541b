"""One life in simulated time, on a disk that is none, or over real sockets."""

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import trio
import trio.testing

from fuzz.scratch import scratch
from fuzz.tally import Tally

Life: TypeAlias = Callable[[Path, int, Tally], Awaitable[None]]

_QUIET_S: Final = 0.005  # real seconds without a byte on loopback: only a clock goes on then


def simulated(live: Life, seed: int, tally: Tally) -> None:
    """Live it in a folder of its own, without syncs, under a clock that jumps. Raises what it raises."""
    root = scratch()
    sync, os.fsync = os.fsync, lambda _descriptor: None
    try:
        trio.run(live, root, seed, tally, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        os.fsync = sync
        shutil.rmtree(root)


def over_sockets(meet: Callable[..., Awaitable[None]], *arguments: object) -> None:
    """Live it on loopback: no time passes while bytes come, however slow the machine, and waits are short."""
    trio.run(meet, *arguments, clock=trio.testing.MockClock(autojump_threshold=_QUIET_S))
