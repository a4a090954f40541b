"""One simulated life on a disk that is none."""

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import trio
import trio.testing

from fuzz.scratch import SCRATCH
from fuzz.tally import Tally

Life: TypeAlias = Callable[[Path, int, Tally], Awaitable[None]]


def simulated(live: Life, seed: int, tally: Tally) -> None:
    """Live it in a folder of its own, without syncs, under a clock that jumps. Raises what it raises."""
    root = Path(tempfile.mkdtemp(prefix="peers-", dir=SCRATCH))
    sync, os.fsync = os.fsync, lambda _descriptor: None
    try:
        trio.run(live, root, seed, tally, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        os.fsync = sync
        shutil.rmtree(root)
