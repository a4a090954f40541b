"""The clocks and the process number that a simulated run sees: the same story writes the same bytes always.

The day is another one for who looks at files later, never for a decision; so it passes with simulated time.
"""

import datetime as dt
import os
import time
from types import SimpleNamespace
from typing import Final

import trio

from triocollect.checkpoint import directory
from triocollect.collector import agreement, taking_control

_DAY: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()
_PROCESS: Final = 4242


class _Day(dt.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(_DAY + trio.current_time(), tz)


_DAYS: Final = SimpleNamespace(datetime=_Day, UTC=dt.UTC)
REPLACED: Final = (
    (agreement, "dt", _DAYS),
    (taking_control, "dt", _DAYS),
    (directory, "datetime", _Day),
    (time, "monotonic", trio.current_time),
    (os, "getpid", lambda: _PROCESS),
)
