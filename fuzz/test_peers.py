"""Whatever a peer answers or asks: a run ends with every row, nothing untrue is published, all open again."""

import pytest

from fuzz.peers.explore import try_one
from fuzz.peers.http import FAULTS
from fuzz.peers.lies import LIES
from fuzz.peers.life import simulated
from fuzz.peers.participants import install_less
from fuzz.tally import Tally


def tried(family: str, cases: int) -> Tally:
    """The first cases of a family, without a violation."""
    tally = Tally("peers", 1)
    for number in range(cases):
        try_one(family, number, tally)
    if tally.violations:
        pytest.fail("\n".join(tally.violations[:5]))
    assert tally.explored == cases
    return tally


@pytest.mark.parametrize(("family", "cases"), [("rows", 2), ("control", 1)])
def test_no_bytes_of_a_server_leave_a_row_or_a_call_without_an_end(family, cases):
    kinds = tried(family, cases).account().kinds
    assert sum(kind.injected for kind in kinds.values()) > 100
    assert len(kinds.keys() & FAULTS.keys()) > len(FAULTS) * 0.8


def test_no_lie_of_a_participant_is_published_and_everybody_opens_again():
    kinds = tried("participants", 160).account().kinds
    assert kinds.keys() == LIES.keys()
    assert min(kind.injected for kind in kinds.values()) > 10
    outcomes = {outcome for kind in kinds.values() for outcome in kind.outcomes}
    assert {"published", "not published", "retired", "restored", "from the input"} <= outcomes


@pytest.mark.parametrize("seed", range(3))
def test_a_row_goes_on_only_where_an_environment_says_that_it_has_installed_it(seed):
    simulated(install_less, seed, Tally("peers", seed))


def test_an_answer_that_was_given_before_says_of_a_retire_what_nobody_can_see():
    tally = Tally("peers", 1)
    try_one("participants", 280798249254752, tally)
    assert not tally.violations


def test_a_participant_obeys_its_rightful_controller_alone_and_opens_again():
    kinds = tried("controllers", 160).account().kinds
    assert kinds.keys() == {"untrue", "nonsense", "wrong token", "wrong method"}
    assert min(kind.injected for kind in kinds.values()) > 300
    assert set(kinds["wrong token"].outcomes) == {"unauthorized"}
