"""A dead server costs a bounded number of sends; no row is started that would not end in time."""

from hypothesis import given
from hypothesis import strategies as st

from triocollect.flight.budget import RetryBudget, TimeBudget


@given(st.integers(1, 300), st.integers(1, 6))
def test_all_sends_together_stay_within_a_fifth_above_the_rows(rows, attempts):
    budget = RetryBudget(attempts)
    sends = []
    for _ in range(rows):
        nth = 1
        budget.sent(nth)
        while budget.allows_another(nth):
            nth += 1
            budget.sent(nth)
        sends.append(nth)
    assert budget.rows == rows
    assert budget.sends == sum(sends) <= 1.2 * rows
    assert max(sends) <= attempts


def test_a_row_that_met_a_closed_server_was_not_sent():
    budget = RetryBudget(3)
    budget.sent(1)
    budget.taken_back(1)
    assert (budget.rows, budget.sends) == (0, 0)


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
