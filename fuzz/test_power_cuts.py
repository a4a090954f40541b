"""The power of a real disk may go at any call: what was acknowledged or published is there; a run goes on."""

import os
import subprocess

import pytest

from fuzz.disk.mounted import take_down_strays
from fuzz.disk.powercut import KINDS, Run
from fuzz.tally import Tally

pytestmark = [pytest.mark.root, pytest.mark.processes]


def lived(run):
    tally = Tally("powercut", 0)
    take_down_strays()
    try:
        run.live(tally)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs mounts of {run.kind}: {getattr(error, 'stderr', '') or error}")
    return tally


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_outlives_cuts_of_the_power(kind):
    tally = lived(Run(kind, seed=1))
    assert not tally.violations, "\n\n".join(tally.violations)
    (cuts,) = tally.account().kinds.values()
    assert cuts.injected >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_of_the_power_show_a_run_that_syncs_nothing(kind):
    tally = lived(Run(kind, seed=1, sync=os.fstat))
    assert any("invariant 3 is broken" in words for words in tally.violations)
