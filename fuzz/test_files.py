"""No harmed file hides a whole row, passes for a whole one, or ends a start for ever (`files/`)."""

import itertools
import random

import pytest

from fuzz.files.explore import PLACES, RUNS, Bench, cases, harm, try_one
from fuzz.files.harms import HARMS, SIGNED
from fuzz.tally import Tally

CASES = 6000


def test_whatever_became_of_the_files_whole_rows_are_kept_and_nothing_else_is_believed():
    tally, met = Tally("files", 7), set()
    with Bench() as bench:
        for place, number in itertools.islice(cases(7), CASES):
            try_one(bench, place, number, tally)
            met.add(place)
    account = tally.account()
    if account.violations:
        pytest.fail("\n".join(account.violations[:10]))
    assert met == set(PLACES)
    assert account.explored > CASES * 0.75, "harms that change nothing do not count"
    assert account.kinds.keys() == HARMS.keys() | SIGNED.keys()
    assert min(len(kind.digests) // 8 for kind in account.kinds.values()) > CASES // 200


def test_a_harm_counts_only_where_something_is_left_of_it():
    harms = {name: HARMS[name] for name in ("carriage returns", "nul tail", "all nul")}
    for number in range(100):
        data, done = harm(random.Random(number), b"a\nb\n", harms)
        left = {
            "carriage returns": b"\r" in data,
            "all nul": data[:1] == b"\0",
            "nul tail": data[-1:] == b"\0",
        }
        assert all(left[name] for name in done)
        assert done != ["all nul"] or not any(data)


def elsewhere(folder, left):
    """What was left, wherever it lies."""
    return {name: data.replace(bytes(folder), b".") for name, data in left.files.items()}, left.rows


def test_a_seed_leaves_the_same_bytes_every_time():
    with Bench() as one, Bench() as other:
        for seed in range(RUNS):
            assert elsewhere(*one.at(seed)) == elsewhere(*other.at(seed))
