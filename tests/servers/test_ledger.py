"""The capture ledger: what it keeps of a conversation whose caller knows less than the ledger."""

from hypothesis import given
from hypothesis import strategies as st

from triocollect.protocol.ids import EpisodeId
from triocollect.servers.model.ledger import CallLedger, LedgerRow

R0, R1 = EpisodeId("r"), EpisodeId("r", 1)


def a_row(call_id, parent=None):
    return LedgerRow(call_id, parent, "00", None, 1, 2)


def the_calls(ledger, episode=R0):
    return [row.call_id for row in ledger.rows(episode)]


def a_chain(*call_ids):
    ledger = CallLedger()
    for parent, call_id in zip([None, *call_ids], call_ids, strict=False):
        ledger.commit(R0, a_row(call_id, parent))
    return ledger


def test_a_caller_that_never_read_the_last_answers_has_them_dropped_and_counted():
    ledger = a_chain("a", "b", "c", "d")
    ledger.cut_back(R0, "b")
    assert (the_calls(ledger), ledger.undelivered) == (["a", "b"], 2)


def test_a_caller_that_knows_no_call_begins_anew():
    ledger = a_chain("a", "b")
    ledger.cut_back(R0, None)
    assert (the_calls(ledger), ledger.undelivered) == ([], 2)


def test_a_caller_that_knows_everything_loses_nothing():
    ledger = a_chain("a", "b")
    ledger.cut_back(R0, "b")
    assert (the_calls(ledger), ledger.undelivered) == (["a", "b"], 0)


def test_rows_that_are_taken_over_replace_what_was_there():
    ledger = a_chain("a")
    ledger.commit(R1, a_row("late"))
    ledger.take_over(R1, ledger.rows(R0))
    ledger.drop(lambda episode: episode == R0)
    assert (the_calls(ledger), the_calls(ledger, R1), len(ledger)) == ([], ["a"], 1)


@given(st.lists(st.integers(0, 9), max_size=10), st.integers(0, 11))
def test_what_is_left_after_a_cut_is_one_unbroken_line_to_what_is_known(parents, known):
    """Each call's parent is one before it or none, as a retrying caller makes them."""
    ledger = CallLedger()
    for number, parent in enumerate(parents, start=1):
        ledger.commit(R0, a_row(str(number), str(parent) if 0 < parent < number else None))
    ledger.cut_back(R0, str(known))
    rows = ledger.rows(R0)
    assert [row.parent for row in rows] == [None, *(row.call_id for row in rows)][: len(rows)]
    assert [row.call_id for row in rows[-1:]] == ([str(known)] if 0 < known <= len(parents) else [])
    assert len(rows) + ledger.undelivered == len(parents)
