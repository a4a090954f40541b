"""A run that is told to stop has one grace, whatever it is in the middle of and however often it is told."""

from itertools import pairwise
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1

import hypothesis.strategies as st
import pytest
import trio
import trio.testing
from hypothesis import given

from fuzz.invariants import all_hold, holds
from tests.checkpoint.world import world
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import Published, Stop
from triocollect.checkpoint.signals import hear
from triocollect.protocol.ids import RowKey

GRACE_S = 60.0
TOLD_S = 1.0  # after the start, when what hangs has been asked
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


async def ends_amid_a_retire(root, hangs):
    """How long after the stop a run ends that has a row to retire, at servers of which one is silent."""
    async with world(root, grace_s=GRACE_S) as here:
        here.network.faults[hangs] = ["stuck"] * 100
        key, episode = RowKey(0, 0), here.fly(0)
        here.air.ledger.no_reply(key)
        here.inbox.retire()
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + 2 * GRACE_S
            nursery.start_soon(here.command)
            await trio.sleep(TOLD_S)
            assert here.air.ledger.lost == {key: episode}
            here.inbox.stop(trio.current_time())
        return trio.current_time() - TOLD_S


@pytest.mark.parametrize("hangs", ["environment retire", "model retire"])
def test_a_retire_under_way_gives_way_to_a_stop(tmp_path, hangs):
    took_s = trio.run(ends_amid_a_retire, tmp_path, hangs, clock=trio.testing.MockClock(autojump_threshold=0))
    holds(14, took_s < 1, f"a run that had nothing to save waited {took_s} s for a retire before it stopped")


async def goes_on_behind_a_body(told_before):
    """How long what gives way lasts, and whether the run's end is ordered then."""
    inbox, began = Inbox(GRACE_S, now=trio.current_time()), trio.current_time()
    async with trio.open_nursery() as nursery:

        async def give_way():
            with inbox.giving_way():
                await trio.sleep(3600)

        if not told_before:
            nursery.start_soon(give_way)
            await trio.sleep(TOLD_S)
        inbox.stop(trio.current_time())
        if told_before:
            nursery.start_soon(give_way)
    return trio.current_time() - began, inbox.take()


@pytest.mark.parametrize("told_before", [False, True])
def test_what_gives_way_is_left_at_once_and_the_stop_is_kept(told_before):
    took_s, order = trio.run(
        goes_on_behind_a_body, told_before, clock=trio.testing.MockClock(autojump_threshold=0)
    )
    holds(14, took_s <= TOLD_S, f"what a stop should have ended at once lasted {took_s} s")
    holds(14, isinstance(order, Stop), f"a stop that came amid something that gives way became {order}")


async def after_its_checkpoint(root, turned):
    """Who is open after the checkpoint of a stop, or after one that a stop has turned into its own."""
    async with world(root) as here:
        here.fly(0)

        def stop():
            assert here.under_way.stop(trio.current_time() + GRACE_S)

        here.network.faults["agent commit"] = [stop] if turned else []
        taken = await here.take(stop=not turned)
        assert isinstance(taken, Published)
        assert taken.stopped
        opened = [kind for kind, phase in here.phases.items() if phase == "open"]
        return [*opened, *["gate"] * here.air.gate.is_open]


@pytest.mark.parametrize("turned", [False, True])
def test_whoever_is_in_the_checkpoint_of_a_stop_stays_closed(tmp_path, turned):
    opened = trio.run(
        after_its_checkpoint, tmp_path, turned, clock=trio.testing.MockClock(autojump_threshold=0)
    )
    words = f"{opened} go on behind the last cut, and what they do will be done again"
    all_hold((5, 11, 12, 13), not opened, words)
