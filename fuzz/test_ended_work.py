"""A retire is answered when the work of its attempts has ended, however long that takes, and not before."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from fuzz.invariants import holds
from fuzz.kinds import MAKE
from fuzz.simulation.lines import a_line
from tests.participant.harness import ONE, inline, participant, retire
from triocollect.participant import Admission, EpisodeId, Participant, Record
from triocollect.participant.workers import Coordinator, Member

BEFORE, OURS, ANOTHERS = EpisodeId("0-0", 0), EpisodeId("0-0", 1), EpisodeId("1-0", 1)


class Slow:
    """Work that is told to end and has something to do before."""

    def __init__(self, admission, episode):
        self._admission, self._episode = admission, episode
        self.lets_go, self.told, self.ended = trio.Event(), False, False

    async def run(self):
        with self._admission.enter(self._episode, "a step is under way"):
            try:
                await trio.sleep_forever()
            finally:
                self.told = True
                with trio.CancelScope(shield=True):
                    await self.lets_go.wait()
                self.ended = True


async def at_work_after(stop, works, last):
    """Whose work goes on when `stop` returns: of what it has to end `last` is the last to do so."""
    at_work = []

    async def stopped():
        await stop([OURS])
        at_work.extend(one.capture_key for one in (BEFORE, OURS) if not works[one].ended)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stopped)
        await wait_all_tasks_blocked()
        for episode in sorted((BEFORE, OURS), key=last.__eq__):
            works[episode].lets_go.set()
            await wait_all_tasks_blocked()
    assert not works[ANOTHERS].told
    return at_work


async def of_a_server(kind, last):
    """At one process."""
    admission = Admission()
    hooks = MAKE[kind](admission)
    works = {one: Slow(admission, one) for one in (BEFORE, OURS, ANOTHERS)}
    async with trio.open_nursery() as nursery:
        for work in works.values():
            nursery.start_soon(work.run)
        await wait_all_tasks_blocked()
        at_work = await at_work_after(hooks.stop, works, last)
        works[ANOTHERS].lets_go.set()
        nursery.cancel_scope.cancel()
    return at_work


@pytest.mark.parametrize("last", [BEFORE, OURS], ids=["the attempt before", "its own"])
@pytest.mark.parametrize("kind", MAKE)
def test_a_server_says_so_when_all_has_ended(kind, last):
    at_work = trio.run(of_a_server, kind, last)
    holds(7, not at_work, f"{at_work} are told to be retired, and the {kind} works on them")


async def of_a_crew(last):
    """At three workers behind one port."""
    coordinator = Coordinator(3, Participant("agent", "one", Admission(), Record), Admission())
    doors = {number: Admission() for number in (1, 2, 3)}
    works = {one: Slow(doors[at], one) for at, one in enumerate((BEFORE, OURS, ANOTHERS), 1)}
    async with trio.open_nursery() as nursery:
        for number, door in doors.items():
            ours, theirs = a_line(lambda: 0.0)
            nursery.start_soon(coordinator.serve, number, ours)
            nursery.start_soon(Member(Participant("agent", "one", door, Record), door, theirs).run)
        for work in works.values():
            nursery.start_soon(work.run)
        await wait_all_tasks_blocked()
        at_work = await at_work_after(coordinator.stop, works, last)
        works[ANOTHERS].lets_go.set()
        nursery.cancel_scope.cancel()
    return at_work


@pytest.mark.parametrize("last", [BEFORE, OURS], ids=["the attempt before", "its own"])
def test_a_crew_says_so_when_all_has_ended_at_each_worker(last):
    at_work = trio.run(of_a_crew, last)
    holds(7, not at_work, f"{at_work} are told to be retired, and a worker works on them")


async def answers(root):
    """To a retire, to its repeat while the work goes on, and to one after."""
    async with participant(root, in_thread=inline) as caller, trio.open_nursery() as nursery:
        work = Slow(caller.counts.admission, ONE)
        nursery.start_soon(work.run)
        await wait_all_tasks_blocked()
        early = [(await caller.post("retire", 1, **retire(ONE)))[0] for _ in range(2)]
        assert work.told
        assert not work.ended
        work.lets_go.set()
        return early, (await caller.post("retire", 1, **retire(ONE)))[0]


def test_a_retire_whose_budget_is_over_before_is_not_answered_well(tmp_path):
    early, at_last = trio.run(answers, tmp_path, clock=MockClock(autojump_threshold=0))
    holds(7, 200 not in early, "a retire is answered, or its repeat, and the work of its attempt goes on")
    assert at_last == 200
