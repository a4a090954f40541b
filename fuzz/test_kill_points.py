"""A run may be killed at any call that changes a file, and amid a write: the next one goes on to the end."""

import pytest

from fuzz.disk.killpoints import all_points, kill
from fuzz.disk.places import SCENARIOS, bases, named
from fuzz.tally import Tally

STOPPED, RESUMED = SCENARIOS[0], SCENARIOS[3]


def worth(points):
    """One of each rename and each write near the top, where everything is decided."""
    seen = set()
    for point in points:
        verb, path, *_ = point.call.split()
        is_near = path.count("/") <= 2
        if is_near and (verb == "rename" or point.amid) and named(point.call) not in seen:
            seen.add(named(point.call))
            yield point


@pytest.mark.parametrize("scenario", [STOPPED, RESUMED], ids=lambda one: one.name)
def test_a_run_goes_on_from_wherever_it_was_killed(scenario):
    tally = Tally("killpoints", 0)
    with bases([scenario]) as made:
        for nth, point in enumerate(worth(all_points(made))):
            kill(point, made[scenario.name], tally, second=20 * nth if nth % 4 == 3 else 0)
    assert not tally.violations, "\n\n".join(tally.violations)
    killed = {name: kind.injected for name, kind in tally.account().kinds.items()}
    assert sum(killed.values()) >= 12
    assert killed["SIGKILL amid a write"] >= 4
