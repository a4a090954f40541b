"""The capture ledger: what it keeps of conversations, of retired attempts and of dead executions."""

import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.capture.ledger import (
    CutBack,
    Deleted,
    Delivered,
    Entry,
    Forgotten,
    Imported,
    Ledger,
    Retired,
    Snapshot,
)
from triocollect.capture.rows import LedgerRow
from triocollect.protocol.ids import EpisodeId

R0, R1, R2 = (EpisodeId("r", attempt) for attempt in range(3))


def a_row(call_id, parent=None, response_id=None):
    return LedgerRow(call_id, parent, "00", response_id, 1, 2)


def the_calls(ledger, episode=R0):
    return [row.call_id for row in ledger.rows(episode)]


def a_chain(*call_ids):
    ledger = Ledger()
    for parent, call_id in zip([None, *call_ids], call_ids, strict=False):
        ledger.apply(Delivered(R0, a_row(call_id, parent)))
    return ledger


def test_a_caller_that_never_read_the_last_answers_has_them_dropped_and_counted():
    ledger = a_chain("a", "b", "c", "d")
    ledger.apply(CutBack(R0, "b"))
    assert (the_calls(ledger), ledger.undelivered) == (["a", "b"], 2)


def test_a_caller_that_knows_no_call_begins_anew():
    ledger = a_chain("a", "b")
    ledger.apply(CutBack(R0, None))
    assert (the_calls(ledger), ledger.undelivered) == ([], 2)


def test_a_caller_that_knows_everything_loses_nothing():
    ledger = a_chain("a", "b")
    ledger.apply(CutBack(R0, "b"))
    assert (the_calls(ledger), ledger.undelivered) == (["a", "b"], 0)


def test_a_call_is_written_down_once_and_the_same_again_is_fine():
    ledger = a_chain("a")
    assert ledger.refusal(R0, a_row("a")) is None
    ledger.apply(Delivered(R0, a_row("a")))
    assert the_calls(ledger) == ["a"]


def test_another_call_under_a_name_that_is_taken_is_a_conflict_and_changes_nothing():
    ledger = a_chain("a")
    assert ledger.refusal(R0, a_row("a", response_id="another")).code == "checkpoint_conflict"
    ledger.apply(Delivered(R0, a_row("a", response_id="another")))
    assert ledger.rows(R0) == (a_row("a"),)


def test_a_retired_attempt_and_those_before_it_keep_no_row_and_take_none():
    ledger = a_chain("a")
    ledger.apply(Delivered(R2, a_row("later")))
    ledger.apply(Retired((R1,)))
    for episode in (R0, R1):
        refusal = ledger.refusal(episode)
        assert (refusal.code, refusal.retired_through) == ("retired", 1)
        ledger.apply(Delivered(episode, a_row("late")))
        assert the_calls(ledger, episode) == []
    assert ledger.refusal(R2) is None
    assert the_calls(ledger, R2) == ["later"]


def test_a_fence_is_never_lowered():
    ledger = Ledger()
    ledger.apply(Retired((R1,)))
    ledger.apply(Retired((R0,)))
    assert ledger.refusal(R1).retired_through == 1


def test_what_was_deleted_is_not_refused_by_that():
    ledger = a_chain("a")
    ledger.apply(Deleted((R0, R1)))
    assert (len(ledger), ledger.refusal(R0)) == (0, None)


def test_a_restore_replaces_what_dead_executions_left_of_its_rollout_and_of_no_other():
    other = EpisodeId("other")
    ledger = a_chain("a", "b")
    ledger.apply(Delivered(R1, a_row("dead")))
    ledger.apply(Delivered(R2, a_row("dead as well")))
    ledger.apply(Delivered(other, a_row("c")))
    ledger.apply(Imported(R1, (a_row("a"),)))
    assert {one: the_calls(ledger, one) for one in ledger.episodes} == {R1: ["a"], other: ["c"]}
    assert ledger.refusal(R0).code == "retired"
    assert ledger.refusal(R1) is None


@pytest.mark.parametrize("whose", [("r",), None])
def test_of_a_forgotten_rollout_neither_rows_nor_fences_are_left(whose):
    ledger = a_chain("a")
    ledger.apply(Retired((EpisodeId("r", 3),)))
    ledger.apply(Delivered(EpisodeId("r", 4), a_row("b")))
    ledger.apply(Forgotten(whose))
    assert (len(ledger), ledger.fenced, ledger.refusal(R0)) == (0, (), None)


@given(st.lists(st.integers(0, 9), max_size=10), st.integers(0, 11))
def test_what_is_left_after_a_cut_is_one_unbroken_line_to_what_is_known(parents, known):
    """Each call's parent is one before it or none, as a retrying caller makes them."""
    ledger = Ledger()
    for number, parent in enumerate(parents, start=1):
        ledger.apply(Delivered(R0, a_row(str(number), str(parent) if 0 < parent < number else None)))
    ledger.apply(CutBack(R0, str(known)))
    rows = ledger.rows(R0)
    assert [row.parent for row in rows] == [None, *(row.call_id for row in rows)][: len(rows)]
    assert [row.call_id for row in rows[-1:]] == ([str(known)] if 0 < known <= len(parents) else [])
    assert len(rows) + ledger.undelivered == len(parents)


EPISODES = st.builds(EpisodeId, st.sampled_from("rst"), st.integers(0, 3))
ROWS = st.builds(a_row, st.sampled_from("abc"), st.sampled_from([None, "a", "b"]))
ENTRIES = st.one_of(
    st.builds(Delivered, EPISODES, ROWS),
    st.builds(Imported, EPISODES, st.lists(ROWS, max_size=3).map(tuple)),
    st.builds(CutBack, EPISODES, st.sampled_from([None, "a"])),
    st.builds(Retired, st.lists(EPISODES, max_size=2).map(tuple)),
    st.builds(Deleted, st.lists(EPISODES, max_size=2).map(tuple)),
    st.builds(Forgotten, st.sampled_from([None, ("r",), ("s", "t")])),
)


@given(st.lists(ENTRIES, max_size=12), st.lists(ENTRIES, max_size=4))
def test_a_ledger_is_read_back_from_its_entries_and_from_a_snapshot(before, after):
    lived, read = Ledger(), Ledger()
    for entry in before:
        lived.apply(entry)
    read.apply(msgspec.json.decode(msgspec.json.encode(lived.snapshot()), type=Snapshot))
    for entry in after:
        lived.apply(entry)
        read.apply(msgspec.json.decode(msgspec.json.encode(entry), type=Entry))
    assert read.snapshot() == lived.snapshot()


@given(st.lists(ENTRIES, max_size=12))
def test_no_row_of_a_retired_attempt_is_ever_there(entries):
    ledger = Ledger()
    for entry in entries:
        ledger.apply(entry)
        assert all(ledger.refusal(one) is None for one in ledger.episodes), f"after {entry}"


def steps_of(ledger, entry):
    """How many function calls, and resumptions of generators, it takes."""
    steps = []
    sys.setprofile(lambda _frame, event, _argument: steps.append(event) if event == "call" else None)
    try:
        ledger.apply(entry)
    finally:
        sys.setprofile(None)
    return len(steps)


@pytest.mark.parametrize("entry", [Imported(R1, (a_row("a"),)), Retired((R0,)), Forgotten(("r",))])
def test_what_becomes_of_a_rollout_costs_the_same_however_many_others_there_are(entry):
    alone, among = a_chain("a"), a_chain("a")
    for number in range(1000):
        among.apply(Delivered(EpisodeId(f"s{number}"), a_row("a")))
    assert steps_of(among, entry) < steps_of(alone, entry) + 100  # whoever collects garbage meanwhile counts
