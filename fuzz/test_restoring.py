"""What a worker of another number kept of a rollout is over by a restore, on whichever worker it lies."""

import pytest
import trio

from fuzz.invariants import holds
from fuzz.simulation.lines import a_line
from triocollect.participant import Admission, EpisodeId, Participant, Record
from triocollect.participant.workers import Coordinator, Member

WAS, BECOMES = EpisodeId("0-0", 1), EpisodeId("0-0", 2)


class Keeping(Participant):
    """It keeps a part of an attempt in files, which are older than the crew; an install frees that."""

    mode = "exported"

    def __init__(self, *kept):
        super().__init__("model", "keeping", Admission(), Record)
        self.kept_here = set(kept)

    async def install(self, records, becomes):
        await trio.lowlevel.checkpoint()
        through = {one.rollout_id: one.attempt for one in becomes.values()}
        self.kept_here -= {one for one in self.kept_here if one.attempt < through.get(one.rollout_id, 0)}
        return [BECOMES for _ in records]


async def left_after_a_restore(workers, keeper):
    """Where a part is left, or an attempt is taken that it follows."""
    coordinator = Coordinator(workers, Keeping(), Admission())
    crew = {number: Keeping(*[WAS] * (number == keeper)) for number in range(1, workers + 1)}
    async with trio.open_nursery() as nursery:
        for number, hooks in crew.items():
            ours, theirs = a_line(lambda: 0.0)
            nursery.start_soon(coordinator.serve, number, ours)
            nursery.start_soon(Member(hooks, hooks.admission, theirs).run)
        record = Record(rollout_id=WAS.rollout_id, attempt=WAS.attempt, kind="model", state=b"")
        assert await coordinator.install([record], {WAS: BECOMES}) == [BECOMES]
        nursery.cancel_scope.cancel()
    return [
        number for number, hooks in crew.items() if hooks.kept_here or not hooks.admission.marks.retired(WAS)
    ]


@pytest.mark.parametrize("keeper", [1, 2, 3])
def test_a_restore_ends_what_any_worker_kept_of_an_earlier_attempt(keeper):
    left = trio.run(left_after_a_restore, 3, keeper)
    holds(16, not left, f"workers {left} keep {WAS.capture_key}, and {BECOMES.capture_key} was restored")
