"""A row that is given up at its deadline has its request ended, and one that is retired its work."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from fuzz.invariants import all_hold
from triocollect.collector.row_clock import RowClock
from triocollect.collector.send import to_function, to_servers
from triocollect.errors import ReplyLostError
from triocollect.gym.routing import Target
from triocollect.participant import Admission, EpisodeId
from triocollect.protocol.ids import RowKey
from triocollect.rows.types import Row

PATIENCE_S = 30.0
OURS, BEFORE = EpisodeId("0-0", 2), EpisodeId("0-0", 1)


class Silent:
    """An environment server, its routes, and a caller's own function, of which nothing ever comes."""

    def __init__(self):
        self.open = 0

    async def post(self, _url, _body, _headers):
        await self.never()

    async def never(self, *_row):
        self.open += 1
        try:
            await trio.sleep(20 * PATIENCE_S)  # and not for ever: a flaw may let nothing end it
        finally:
            self.open -= 1
        raise ReplyLostError("http://environment: closed", kind="closed")

    def target(self, _row):
        return Target(url="http://environment", server=None, implementation=None)


def a_request(silent, clock):
    return to_servers(silent, silent, clock, reuse={}, headers=lambda _key: ())


def a_call(silent, clock):
    return to_function(silent.never, clock)


async def open_after(way):
    """After how many seconds a collector is done with a row, and what of it is open then."""
    began, silent, clock = trio.current_time(), Silent(), RowClock(PATIENCE_S)
    row = Row(RowKey(0, 0), b"{}", *[None] * (len(Row.__struct_fields__) - 2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.run)
        with trio.move_on_after(10 * PATIENCE_S):
            await way(silent, clock)(row, OURS)
        took_s, still_open = trio.current_time() - began, silent.open
        nursery.cancel_scope.cancel()
    return took_s, still_open


@pytest.mark.parametrize("way", [a_request, a_call])
def test_a_row_that_is_given_up_at_its_deadline_has_nothing_open(way):
    took_s, still_open = trio.run(open_after, way, clock=MockClock(autojump_threshold=0))
    words = (
        f"{way.__name__} of a row that was to have {PATIENCE_S:g} s took {took_s:g} s, with {still_open} open"
    )
    all_hold((2, 7, 14, 16), took_s < 2 * PATIENCE_S and not still_open, words)


async def at_work_after_a_retire(episode):
    admission = Admission()

    async def work():
        with admission.enter(episode, "a step"):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await wait_all_tasks_blocked()
        with trio.move_on_after(PATIENCE_S):
            await admission.stop([OURS])
        left = len(admission.works)
        nursery.cancel_scope.cancel()
    return left


@pytest.mark.parametrize("episode", [BEFORE, OURS])
def test_what_is_retired_runs_no_more(episode):
    left = trio.run(at_work_after_a_retire, episode, clock=MockClock(autojump_threshold=0))
    all_hold((2, 7, 16), not left, f"{episode.capture_key} runs on, and {OURS.capture_key} was retired")
