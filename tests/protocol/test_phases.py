from typing import get_args

import pytest

from triocollect.protocol.messages import PhaseName
from triocollect.protocol.phases import ENDS, NEXT, Event, Phase, allows, mermaid, step


def test_the_phases_are_those_of_the_wire():
    assert {phase.value for phase in Phase} == set(get_args(PhaseName))
    assert set(NEXT) == set(Phase)


def test_a_checkpoint_goes_from_open_to_open():
    phase = Phase.OPEN
    for event in (Event.PREPARE, Event.AT_BOUNDARIES, Event.COMMIT, Event.WRITTEN):
        phase = step(phase, event)
    assert phase is Phase.COMMITTED
    assert step(phase, Event.RESUME) is Phase.OPEN


def test_a_restore_goes_from_open_to_open():
    assert step(step(Phase.OPEN, Event.RESTORE), Event.INSTALLED) is Phase.RESTORED
    assert step(Phase.RESTORED, Event.RESUME) is Phase.OPEN


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.OPEN, Phase.RESTORING}))
@pytest.mark.parametrize("event", ENDS)
def test_every_pause_ends_at_once_whatever_ends_it(phase, event):
    assert step(phase, event) is Phase.OPEN


@pytest.mark.parametrize("event", ENDS)
def test_an_install_under_way_ends_before_anything_opens(event):
    assert step(Phase.RESTORING, event) is Phase.RESTORING
    assert step(Phase.RESTORING, Event.RESTORE_FAILED) is Phase.OPEN


def test_nothing_is_retired_between_prepare_and_resume():
    assert [phase for phase in Phase if allows(phase, Event.RETIRE)] == [Phase.OPEN, Phase.RESTORED]


def test_a_move_that_is_not_in_the_table_is_a_fault_that_names_what_is():
    with pytest.raises(ValueError, match="no commit while open; only prepare, restore"):
        step(Phase.OPEN, Event.COMMIT)


def test_the_diagram_has_every_move_of_the_table_once():
    drawn = set()
    for line in mermaid().splitlines()[2:]:
        arrow, _, events = line.strip().partition(": ")
        before, _, after = arrow.partition(" --> ")
        drawn |= {(before, event, after) for event in events.split(", ")}
    assert drawn == {(phase, event, after) for phase, moves in NEXT.items() for event, after in moves.items()}
    assert mermaid().startswith("stateDiagram-v2\n    [*] --> open\n")
