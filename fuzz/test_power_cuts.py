"""The power of a real disk may go at any call: what was acknowledged or published is there; a run goes on."""

import os

import pytest

from fuzz.disk.mounted import lacks, take_down_strays
from fuzz.disk.powercut import KINDS, Run
from fuzz.tally import Tally

pytestmark = [pytest.mark.root, pytest.mark.processes]


def lived(run):
    tally = Tally("powercut", 0)
    take_down_strays()
    if (why := lacks(run.kind)) is not None:
        pytest.skip(f"needs mounts of {run.kind}: {why}")
    run.live(tally)
    return tally


SEED = 3  # whose lives promise rows and checkpoints before the power goes


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_acknowledged_or_published_survives_every_cut_of_the_power(kind):
    tally = lived(Run(kind, seed=SEED))
    assert not tally.violations, "\n\n".join(tally.violations)
    (cuts,) = tally.account().kinds.values()
    assert cuts.injected >= 3
    assert "rows and a checkpoint" in cuts.outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_of_the_power_take_both_from_a_run_that_syncs_nothing(kind):
    violations = lived(Run(kind, seed=SEED, sync=os.fstat)).violations
    for number, what in ((1, "were acknowledged"), (3, "was published")):
        assert any(f"invariant {number} is broken" in words and what in words for words in violations)
