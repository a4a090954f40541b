"""Every promise of a participant, tried as a collector would: one that is broken says which invariant."""

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from fuzz.invariants import INVARIANTS, broken
from tests.conformance.participants import TOKEN, whole
from triocollect.conformance import PROMISES, Terms, examine_in_process

ANY_ORDER = len(PROMISES) + 1
MEANS = {  # the promises without which an invariant does not hold; most are behind more than one
    2: (5, 6, 7, 24, 27, 28, 29, 30, 31, 39, 43),
    3: (11, 23),
    4: (4, 42),
    5: (3, 8, 10, 18, 26),
    6: (35, 36, 37),
    7: (18, 21, 24, 31),
    8: (1, 2, 5, 6, 9, 13, 16, 20, 25, 28, ANY_ORDER),
    9: (4, 6, 10, 11, 12, 14, 15, 16, 17, 19, 42),
    10: (22, 23, 31, 32, 33, 34, 39, 40, 41),
    11: (38,),
    12: (34, 37, 41),
    13: (10, 27, 34, 35, 36, 37, 41),
    16: (29, 30, 32, 40),
}
LEAST_CALLS = 200  # in any order


@pytest.mark.parametrize("kind", ["environment", "resources"])
def test_a_participant_of_the_package_keeps_its_promises(kind, tmp_path):
    terms = Terms(token=TOKEN, directory=tmp_path, seconds=0.0, seed=20)
    make = partial(whole, tmp_path, kind)
    examined = trio.run(examine_in_process, make, terms, clock=MockClock(autojump_threshold=0))
    invariants = [invariant for invariant, promises in MEANS.items() if {*examined.broken} & {*promises}]
    if invariants:
        also = "".join(f"invariant {invariant} is broken\n" for invariant in invariants[1:])
        broken(invariants[0], also + examined.text())
    assert all(one.verdict == "kept" for one in examined.findings), examined.text()
    assert examined.calls >= LEAST_CALLS


def test_a_broken_promise_always_has_an_invariant():
    behind = {number for promises in MEANS.values() for number in promises}
    assert sorted(behind) == [*(promise.number for promise in PROMISES), ANY_ORDER]
    assert MEANS.keys() <= INVARIANTS.keys()
