"""A disk may fail at any call: the run says so and ends, or goes on, and nothing that was told is lost."""

import pytest

from fuzz.disk.ioerrors import HALF, all_blows, strike
from fuzz.disk.places import SCENARIOS, bases, named
from fuzz.tally import Tally

STOPPED, ENDED, RESUMED = SCENARIOS[:3]
WORTH = {
    "EIO": (
        "close checkpoints/collector.lock",
        "close out_failures.jsonl",
        "fsync out.jsonl",
        "close out.jsonl",
        "open out.jsonl",
        "fsync checkpoints/.LATEST.tmp",
    ),
    "ENOSPC": ("write out.jsonl", "write checkpoints/dispatched.jsonl", "write checkpoints/.LATEST.tmp"),
    "EDQUOT": ("close checkpoints/.LATEST.tmp", "fsync checkpoints", "write checkpoints/outcomes.jsonl"),
    "EROFS": ("rename checkpoints/.LATEST.tmp to checkpoints/LATEST", "mkdir checkpoints/ckpt-*"),
    HALF: ("write out.jsonl", "write checkpoints/dispatched.jsonl"),
}


def worth(blows):
    """Each of those calls once, and from then on."""
    seen = set()
    for blow in blows:
        what = (blow.what, named(blow.call), blow.stays)
        if named(blow.call) in WORTH.get(blow.what, ()) and what not in seen:
            seen.add(what)
            yield blow


@pytest.mark.parametrize("scenario", [STOPPED, RESUMED], ids=lambda one: one.name)
def test_a_run_outlives_errors_of_its_disk_or_says_why_it_does_not(scenario):
    tally = Tally("ioerrors", 0)
    with bases([scenario]) as made:
        for blow in worth(all_blows(made)):
            strike(blow, made[scenario.name], tally)
    assert not tally.violations, "\n\n".join(tally.violations)
    kinds = tally.account().kinds
    assert sum(kind.injected for kind in kinds.values()) >= 10
    assert len(kinds) >= 6
    assert {"goes on", "ends with a message"} <= {end for kind in kinds.values() for end in kind.outcomes}


def test_what_could_not_be_synced_once_is_never_taken_for_durable():
    """No checkpoint leaves it out, and the run ends: a later sync would say that all is well."""
    tally = Tally("ioerrors", 0)
    with bases([ENDED]) as made:
        for blow in all_blows(made):
            if (blow.call, blow.what, blow.stays) == ("fsync out.jsonl", "EIO", False):
                strike(blow, made[ENDED.name], tally)
    assert not tally.violations, "\n\n".join(tally.violations)
    assert tally.account().kinds["EIO"].injected >= 2
