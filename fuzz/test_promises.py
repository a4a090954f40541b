"""Every promise of a participant, tried as a collector would: one that is broken says which invariant."""

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from fuzz.invariants import INVARIANTS, broken
from tests.conformance.participants import TOKEN, whole
from triocollect.conformance import PROMISES, Terms, examine_in_process

ANY_ORDER = len(PROMISES) + 1
MEANS = {  # the invariant that does not hold where a promise is broken
    2: (6, 7, 24, 28, 29, 30),
    5: (3, 8, 10, 18, 26),
    7: (21, 31),
    8: (1, 2, 5, 9, 13, 20, 25, ANY_ORDER),
    9: (4, 11, 12, 14, 15, 16, 17, 19),
    10: (22, 23, 33, 39),
    11: (38,),
    13: (27, 34, 35, 36, 37, 41),
    16: (32, 40),
}
INVARIANT_OF = {promise: invariant for invariant, promises in MEANS.items() for promise in promises}
LEAST_CALLS = 200  # in any order


@pytest.mark.parametrize("kind", ["environment", "resources"])
def test_a_participant_of_the_package_keeps_its_promises(kind, tmp_path):
    terms = Terms(token=TOKEN, directory=tmp_path, seconds=0.0, seed=20)
    make = partial(whole, tmp_path, kind)
    examined = trio.run(examine_in_process, make, terms, clock=MockClock(autojump_threshold=0))
    invariants = sorted({INVARIANT_OF[number] for number in examined.broken})
    if invariants:
        also = "".join(f"invariant {invariant} is broken\n" for invariant in invariants[1:])
        broken(invariants[0], also + examined.text())
    assert all(one.verdict == "kept" for one in examined.findings), examined.text()
    assert examined.calls >= LEAST_CALLS


def test_a_broken_promise_always_has_an_invariant():
    assert sorted(INVARIANT_OF) == [*(promise.number for promise in PROMISES), ANY_ORDER]
    assert MEANS.keys() <= INVARIANTS.keys()
