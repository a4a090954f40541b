"""Stories of servers with several workers: one is lost at each moment, joins late, or hears late."""

import pytest

from fuzz.invariants import holds
from fuzz.simulation.named import CUT, SLOW_CONTROL, STOPPED, lives_of, struck, words_of
from fuzz.simulation.story import CREWED, Death, Fall, Fault, Life, Moment, Signal

TWO = dict.fromkeys(CREWED, 2)
THREE = dict.fromkeys(CREWED, 3)
CREW = {"workers": TWO, "rows": 3, "link_ms": 300}
ROWS = {"rows": 4, "tokens_per_s": 2.0}


@pytest.mark.parametrize("server", CREWED)
def test_a_worker_that_is_lost_at_any_word_of_a_checkpoint_tears_none(server):
    """It prepares, is prepared, commits, has committed, opens, or is open again."""
    words = words_of("prepare", Life(signals=(CUT,)), **SLOW_CONTROL, **CREW)[::4]
    fell = 0
    for nth in words:
        lost = Fall(Moment(nth, "controls"), server, 1 + nth % 2, away_ms=nth % 3 * 100)
        lived = lives_of(Life(signals=(CUT,), falls=(lost,)), **SLOW_CONTROL, **CREW)
        fell += len(struck(lived, f"death of a worker of {server}"))
    assert fell >= len(words) - 1


@pytest.mark.parametrize("server", CREWED)
def test_a_worker_that_is_lost_while_it_is_asked_for_its_part_of_a_checkpoint_tears_none(server):
    """Its line is so slow that the order to export is on its way when all others have written theirs."""
    more = {"workers": {server: 2}, "rows": 3, "link_ms": 3000, **SLOW_CONTROL}
    words = words_of("prepare", Life(signals=(CUT,)), **more)
    for worker in (1, 2):
        lost = Fall(Moment(words[4], "controls"), server, worker)
        lived = lives_of(Life(signals=(CUT,), falls=(lost,)), **more)
        (place,) = struck(lived, f"death of a worker of {server}")
        assert place.endswith("commit")
        assert lived.oracle.counts["not published"]


@pytest.mark.parametrize("server", CREWED)
def test_a_worker_that_is_lost_at_any_word_of_a_restore_leaves_attempts_that_nobody_uses_again(server):
    words = words_of("restore", STOPPED, Life(), **SLOW_CONTROL, **CREW)[::5]
    fell = 0
    for nth in words:
        lost = Fall(Moment(nth, "controls"), server, 1 + nth % 2)
        fails = Life(falls=(lost,), death=Death(Moment(nth + 8, "controls")))
        lived = lives_of(STOPPED, fails, **SLOW_CONTROL, **CREW)
        fell += len(struck(lived, f"death of a worker of {server}"))
    assert fell >= len(words) - 1


@pytest.mark.parametrize(("before", "after"), [(TWO, THREE), (THREE, TWO), ({}, THREE), (THREE, {})])
def test_every_row_goes_on_with_another_number_of_workers(before, after):
    cut = Life(signals=STOPPED.signals, workers=before)
    sends = lives_of(cut, workers=after, **ROWS).oracle.sends.of
    later = {row: [one.goes_on for one in each if one.attempt] for row, each in sends.items()}
    holds(10, all(each == [True] for each in later.values()), f"not all rows went on: {later}")


@pytest.mark.parametrize("server", CREWED)
def test_a_worker_that_joins_while_all_are_closed_closes_too_and_the_checkpoint_is_taken(server):
    """What went with the one before it is a restart in that checkpoint."""
    for worker in (1, 2):
        joins = Fall(Moment(6, "answers"), server, worker, away_ms=2000)
        asked = Signal(Moment(500, "ms"), "USR1")
        lived = lives_of(Life(signals=(asked,), falls=(joins,)), workers=TWO, **ROWS)
        assert struck(lived, f"death of a worker of {server}")
        holds(5, lived.oracle.counts["published"], "the one that joined did not close")


def test_a_part_that_went_with_a_worker_is_a_restart_in_every_checkpoint_until_it_is_retired():
    """Whatever an agent or an environment kept beside it."""
    published = 0
    for server in ("counter", "agent"):
        for nth in (7, 9, 12):
            cut = Signal(Moment(nth + 1, "answers"), "TERM")
            lost = Fall(Moment(nth, "answers"), server, 1 + nth % 2)
            lived = lives_of(Life(signals=(cut,), falls=(lost,)), workers=TWO, **ROWS)
            published += lived.oracle.counts["published"]
    assert published


def test_a_late_joiner_plays_no_attempt_that_was_retired_while_it_was_not_there():
    """The request is long on its way, and finds the one that has taken its worker's place."""
    stray = Fault("run", 6, "stray")
    lost = Fall(Moment(20_000, "ms"), "environment", 1)  # whose the row is; who has its request passes it on
    more = {"rows": 24, "concurrency": 5, "changes": 1, "tokens_per_s": 0.4, "standing": True}
    for dice in range(8):
        lived = lives_of(Life(faults=(stray,), falls=(lost,)), workers={"environment": 2}, dice=dice, **more)
        if any(one.request.overtaken for one in lived.oracle.sends.of["5-0"]):
            return
    pytest.fail("no request outlived a worker")


@pytest.mark.parametrize("link_ms", [0, 400])
def test_what_a_worker_reported_before_the_latest_closing_makes_nobody_prepared(link_ms):
    asked = tuple(Signal(Moment(nth, "answers"), "USR1") for nth in (8, 10))
    lived = lives_of(Life(signals=asked), workers=TWO, link_ms=link_ms, latency_ms=200, **ROWS)
    assert lived.oracle.counts["published"] == 2


def test_a_restored_row_that_comes_twice_is_claimed_once():
    twice = Life(faults=tuple(Fault("run", nth, "twice") for nth in (1, 2, 3)))
    lived = lives_of(STOPPED, twice, workers=THREE, rows=3, tokens_per_s=0.5)
    assert len(struck(lived, "twice")) == 3
    assert lived.oracle.counts["continued"] == 3


def test_workers_whose_collector_never_asks_them_to_open_do_so_when_their_lease_is_over():
    resumes = words_of("resume", Life(signals=(CUT,)), workers=TWO, tokens_per_s=2.0)
    lost = tuple(Fault("control", nth, "gateway") for nth in range(resumes[0], resumes[0] + 600))
    dies = Death(Moment(240_000), "collector")
    lived = lives_of(Life(signals=(CUT,), faults=lost, death=dies), workers=TWO, tokens_per_s=2.0)
    again = {rollout_id: len(sends) for rollout_id, sends in lived.oracle.sends.of.items() if len(sends) > 1}
    holds(8, not again, f"{again} were closed for ever")


@pytest.mark.parametrize("server", CREWED)
def test_a_row_whose_worker_is_lost_is_played_again_from_its_beginning(server):
    for nth in (4, 10):
        lost = Fall(Moment(nth, "answers"), server, 1 + nth % 2)
        lives_of(Life(falls=(lost,)), workers=TWO, **ROWS)
