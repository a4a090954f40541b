"""A dead server costs a bounded number of sends; no row is started that would not end in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.flight.budget import RetryBudget, TimeBudget, pause_s


@given(st.integers(1, 300), st.integers(1, 6))
def test_all_sends_together_stay_within_a_fifth_above_the_rows(rows, attempts):
    budget = RetryBudget(attempts)
    sends = []
    for _ in range(rows):
        nth = 1
        budget.sent(nth)
        while budget.promises_another(nth):
            nth += 1
            budget.sent(nth)
        sends.append(nth)
    assert budget.rows == rows
    assert budget.sends == sum(sends) <= 1.2 * rows
    assert max(sends) <= attempts


@given(st.integers(1, 100), st.lists(st.sampled_from(["again", "closed", "left"]), max_size=300))
def test_rows_that_are_lost_together_share_what_is_left_of_the_budget(rows, ends):
    budget, waiting, flying, most = RetryBudget(3), [], [1] * rows, 1.2 * rows
    for _ in flying:
        budget.sent(1)
    for end in ends:
        while flying:  # all are lost before any is sent again
            nth = flying.pop()
            waiting += [nth + 1] * budget.promises_another(nth)
        if not waiting:
            break
        nth = waiting.pop()
        if end == "left":
            budget.given_up(nth)
            continue
        budget.sent(nth)
        assert budget.sends <= most
        if end == "closed":
            budget.taken_back(nth)
            waiting.insert(0, nth)
        else:
            flying.append(nth)
    assert budget.sends + len(waiting) <= most
    if not waiting:
        assert budget.promises_another(1) == (budget.sends + 1 <= most), "no promise is kept for nobody"


@pytest.mark.parametrize("luck", [0.0, 0.5, 1.0])
def test_pauses_grow_to_half_a_minute_and_never_overflow(luck):
    pauses = [pause_s(nth, None, luck) for nth in range(1, 2000)]
    assert pauses == sorted(pauses)
    assert 0.5 <= pauses[0] <= 1.0
    assert pauses[-1] <= 30.0


@pytest.mark.parametrize(("wish", "least", "most"), [(0, 0.5, 0.6), (120, 120, 132), (1e9, 300, 330)])
def test_a_servers_wish_is_honoured_within_reason(wish, least, most):
    assert least <= pause_s(1, wish, 0.0) <= pause_s(1, wish, 1.0) <= most


def test_without_a_budget_rows_are_started_for_ever():
    assert not TimeBudget(None, None).is_spent(1e12)


def test_the_margin_is_what_most_rows_take():
    budget = TimeBudget(100, None)
    assert not budget.is_spent(99.9)
    for seconds in (1, 2, 30, 4):
        budget.finished(seconds)
    assert budget.margin_s == 0, "four rows say nothing yet"
    budget.finished(5)
    assert budget.margin_s == 5
    assert budget.is_spent(95)
    assert not budget.is_spent(94.9)


def test_a_margin_that_is_set_is_kept():
    budget = TimeBudget(100, 40)
    for _ in range(9):
        budget.finished(1)
    assert budget.is_spent(60)
