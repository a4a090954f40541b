"""A run that is told to stop has one grace, however often and by whatever signals it is told again."""

from itertools import pairwise
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1

import hypothesis.strategies as st
import trio
import trio.testing
from hypothesis import given

from fuzz.invariants import holds
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.signals import hear

GRACE_S = 60.0
STOPS = (SIGTERM, SIGHUP, SIGINT)
arrivals = st.lists(st.tuples(st.floats(0, 30), st.sampled_from([*STOPS, SIGUSR1])), min_size=1, max_size=6)


async def told(signals):
    """When the run has to have ended, after each signal; and when it was told first."""
    began = trio.current_time()
    inbox, ends, first = Inbox(GRACE_S, now=began), [], None
    for pause_s, number in signals:
        await trio.sleep(pause_s)
        first = trio.current_time() if first is None and number in STOPS else first
        hear(inbox, number)
        ends.append(inbox.stop_by)
    return ends, first


@given(arrivals)
def test_who_is_told_again_ends_no_later(signals):
    ends, first = trio.run(told, signals, clock=trio.testing.MockClock(autojump_threshold=0))
    for before, after in pairwise(ends):
        holds(14, before is None or after == before, f"told again it ends at {after}, and not at {before}")
    by = None if first is None else first + GRACE_S
    holds(14, ends[-1] == by, f"it was told at {first}, and ends at {ends[-1]}")
