"""Whatever happens to a run and its machine, every row ends with one result, played once from end to end."""

import math
from collections import Counter

import pytest

from fuzz.commands import Options
from fuzz.invariants import holds
from fuzz.simulation.explore import explored, said_at_the_end, told
from fuzz.simulation.once_broken import ONCE_BROKEN
from fuzz.simulation.story import (
    SERVERS,
    Break,
    Death,
    Fall,
    Fault,
    Life,
    Moment,
    Signal,
    Story,
    Trouble,
    told_by,
)
from fuzz.tally import Tally

STOPPED = Life(signals=(Signal(Moment(1500), "TERM"),))


def oracle_of(*lives, rows=3, concurrency=256, tokens_per_s=2.0, latency_ms=1, control_ms=1, **more):
    """What the oracle has seen of a story."""
    story = Story(rows, concurrency, tokens_per_s, latency_ms, control_ms, lives, **more)
    return told(story).oracle


@pytest.mark.parametrize("seed", [1, 2])
def test_every_row_ends_with_one_result_whatever_happens(seed, until):
    """The same as `python -m fuzz sim --seed`, for so many stories."""
    tally = Tally("sim", seed)
    explored(Options(math.inf, seed), tally, stories=40, until=until)
    account = tally.account()
    assert not account.violations, "\n".join(account.violations)
    assert account.explored >= 30
    assert sum(kind.injected for kind in account.kinds.values()) >= 130
    assert len(account.kinds) >= 18


def test_of_stories_that_show_the_same_violation_the_first_is_told_and_all_are_counted():
    tally, seen = Tally("sim", 1), Counter[str]()
    with said_at_the_end(tally, seen):
        for name, many in (("invariant 1", 3), ("invariant 2", 1)):
            tally.violation(f"{name} is broken", "a story")
            seen[name] = many
    first, second = tally.violations
    assert first.endswith("and 2 more stories showed the same")
    assert "more stories" not in second


def test_a_stop_a_checkpoint_a_death_and_a_full_stop():
    killed = Life(signals=(Signal(Moment(700), "USR1"),), death=Death(Moment(2000)))
    cut_short = Life(death=Death(Moment(15, "syncs")))
    oracle = oracle_of(STOPPED, killed, cut_short)
    assert oracle.restored, "some rows have to go on from where they were"


@pytest.mark.parametrize("nth", range(1, 50, 3))
def test_a_stop_at_any_answer_between_servers_tears_nothing(nth):
    stopped = Life(signals=(Signal(Moment(nth, "answers"), "TERM"),))
    oracle = oracle_of(stopped, latency_ms=500, control_ms=5)
    assert oracle.counts["published"], "the stop has its checkpoint"


@pytest.mark.parametrize("what", ["TERM", "INT"])
@pytest.mark.parametrize("at", [0, 1, 3, 10, 30])
def test_a_stop_before_anything_is_sent_loses_nothing(what, at):
    """From before anybody listens on, through the bringing up of the servers and the restoring."""
    at_once = Life(signals=(Signal(Moment(at), what), Signal(Moment(at + 5), "TERM")))
    oracle = oracle_of(at_once, STOPPED, at_once, at_once, latency_ms=20, control_ms=5)
    assert oracle.restored, "rows go on from the one checkpoint that there is"


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_stop_at_any_of_the_first_syncs_keeps_nobody_out(nth):
    stopped = Life(signals=(Signal(Moment(nth, "syncs"), "TERM"),))
    oracle_of(stopped, stopped, rows=2, latency_ms=500, control_ms=5)


def test_a_tool_whose_answer_was_lost_at_the_cut_is_not_called_again():
    lost = Fault("peer", 6, "reply lost")
    stopped = Life(signals=(Signal(Moment(6, "answers"), "TERM"),), faults=(lost,))
    oracle_of(stopped, rows=1, concurrency=1, latency_ms=20, control_ms=5)


def all_went_on(oracle):
    """Every later attempt has to go on from the checkpoint."""
    anew = {
        rollout_id: one.attempt
        for rollout_id, sends in oracle.sends.of.items()
        for one in sends
        if one.attempt and not one.goes_on
    }
    holds(10, not anew, f"these attempts began anew: {anew}")
    holds(10, oracle.counts["continued"] >= 3, f"{oracle.counts['continued']} rows went on")


@pytest.mark.parametrize("nth", range(1, 13))
def test_a_restart_that_dies_at_any_sync_twice_continues_every_row(nth):
    dead = Life(death=Death(Moment(nth, "syncs")))
    oracle = oracle_of(STOPPED, dead, dead)
    all_went_on(oracle)


@pytest.mark.parametrize("nth", range(1, 24, 2))
def test_a_restart_that_dies_at_any_word_of_a_participant_twice_continues_every_row(nth):
    dead = (Life(death=Death(Moment(which, "controls"))) for which in (nth, nth + 1))
    oracle = oracle_of(STOPPED, *dead)
    all_went_on(oracle)


@pytest.mark.parametrize("nth", range(1, 100, 4))
def test_a_machine_that_dies_at_any_change_of_a_file_costs_no_row(nth):
    """Nor what was acknowledged or published: the disk keeps what was synced, and of the rest anything."""
    cut = Life(signals=(Signal(Moment(6, "answers"), "USR1"),), death=Death(Moment(nth, "files"), "machine"))
    oracle = oracle_of(cut, cut, rows=2, tokens_per_s=None, changes=1, dice=nth)
    assert oracle.counts["life ended dead"]


@pytest.mark.parametrize("dice", range(1, 9))
def test_a_row_that_a_checkpoint_leaves_out_as_it_was_done_survives_the_power(dice):
    """The first row is done when the second is under way, and nobody has synced the output by itself."""
    signals = (Signal(Moment(20, "answers"), "USR1"),)
    cut = Life(signals=signals, death=Death(Moment(26, "answers"), "machine"), concurrency=1)
    oracle = oracle_of(cut, rows=2, tokens_per_s=None, latency_ms=0, control_ms=0, changes=1, dice=dice)
    holds(15, [one.attempt for one in oracle.sends.of["0-0"]] == [0], "a row that was done is played again")


@pytest.mark.parametrize("how", ["reply lost", "unnoticed", "gateway after"])
@pytest.mark.parametrize("standing", [False, True])
def test_a_row_without_an_answer_is_sent_again_when_nobody_is_at_work_for_it(how, standing):
    """By the same run: so many rows allow one more send."""
    life = Life(faults=(Fault("run", 2, how),))
    oracle = oracle_of(life, rows=6, tokens_per_s=10.0, changes=1, standing=standing)
    sends = sum(map(len, oracle.sends.of.values()))
    assert sends == 7, "six rows, and one of them twice"


@pytest.mark.parametrize("what", ["TERM", "INT"])
@pytest.mark.parametrize("nth", [3, 6, 8, 9])
def test_a_stop_is_over_within_its_grace_where_a_call_never_ends(what, nth):
    """It is the tool's, the model's, the verifier's: nothing that hangs is ready for a checkpoint."""
    life = Life(signals=(Signal(Moment(nth + 2, "answers"), what),), faults=(Fault("peer", nth, "hangs"),))
    oracle_of(life, rows=2, tokens_per_s=None, changes=1)


@pytest.mark.parametrize("seen", ["by both", "by servers"])
@pytest.mark.parametrize("at", [4, 5])
@pytest.mark.parametrize("nth", range(18, 34))
def test_connections_that_break_at_any_word_of_a_checkpoint_leave_it_of_one_instant(nth, at, seen):
    asked = (Signal(Moment(at, "answers"), "USR1"),)
    life = Life(signals=asked, breaks=(Break(Moment(nth, "controls"), seen),))
    oracle_of(life, rows=2, tokens_per_s=10.0, control_ms=20, changes=1)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("nth", range(14, 34, 2))
def test_a_server_that_dies_at_any_word_of_a_checkpoint_tears_nothing(server, nth):
    life = Life(
        signals=(Signal(Moment(9, "answers"), "USR1"), Signal(Moment(22, "answers"), "TERM")),
        falls=(Fall(Moment(nth, "controls"), server),),
    )
    oracle_of(life, rows=2, tokens_per_s=None, changes=1)


@pytest.mark.parametrize("nth", range(1, 100, 9))
@pytest.mark.parametrize("what", ["EIO", "ENOSPC"])
def test_a_disk_that_fails_or_is_full_costs_no_row(what, nth):
    signals = (Signal(Moment(6, "answers"), "USR1"),)
    once, for_good = (Life(signals=signals, disk=(Trouble(nth, count, what),)) for count in (1, 1000))
    oracle_of(once, for_good, rows=2, tokens_per_s=None, changes=1)


def test_rows_that_were_restored_and_not_sent_yet_are_in_the_next_checkpoint():
    narrow = Life(signals=(Signal(Moment(300), "USR1"),), death=Death(Moment(900)), concurrency=1)
    oracle = oracle_of(STOPPED, narrow, narrow, rows=4)
    holds(6, oracle.counts["published"] == 3, f"{oracle.counts['published']} checkpoints")
    all_went_on(oracle)


def test_rows_that_wait_while_a_checkpoint_is_taken_go_on_by_the_run_that_took_it():
    narrow = Life(signals=(Signal(Moment(300), "USR1"),), concurrency=1)
    all_went_on(oracle_of(STOPPED, narrow, rows=4))


@pytest.mark.parametrize("death", [Moment(30, "controls"), Moment(14, "answers")])
def test_a_row_that_failed_since_the_checkpoint_begins_anew(death):
    """It has an answer; the run dies before another checkpoint."""
    failed = Life(faults=(Fault("run", 1, "fails"),), death=Death(death))
    oracle = oracle_of(STOPPED, failed, rows=2, concurrency=1)
    assert oracle.counts["life ended dead"]


@pytest.mark.parametrize("harm", ["LATEST", "newest", "lock"])
def test_a_damaged_directory_costs_a_restart_no_more_than_the_newest_checkpoint(harm):
    twice = Life(signals=(Signal(Moment(800), "USR1"), Signal(Moment(1600), "TERM")))
    oracle = oracle_of(twice, Life(death=Death(Moment(12, "controls")), harm=harm), Life())
    assert oracle.counts["published"] == 2
    all_went_on(oracle)


def test_a_disk_that_is_full_at_the_very_end_takes_no_row_and_no_report_away():
    """The one that begins is the second draft of the dispatch log, which says that the run has ended."""
    for nth in range(32, 120):
        lived = told(Story(2, tokens_per_s=10.0, lives=(Life(disk=(Trouble(nth, 1, "ENOSPC"),)),)))
        if lived.lives[0].struck == [("ENOSPC", "collector open .dispatched.jsonl.tmp")]:
            break
    report = lived.lives[0].report
    assert (report.exit_code, report.succeeded) == (0, 2)
    assert any("every row is written" in note for note in report.notes)


KILLED = Life(death=Death(Moment(1500)))
FRESH = Life(death=Death(Moment(1500)), fresh=True)


@pytest.mark.parametrize(
    ("concurrency", "lives"),
    [
        (1, (Life(death=Death(Moment(4000))), KILLED, FRESH)),
        (256, (KILLED, Life(fresh=True, limit=1), FRESH)),
        (256, (KILLED, Life(limit=1), KILLED)),
        (1, (Life(fresh=True), Life(fresh=True, limit=1, death=Death(Moment(3000))), FRESH)),
    ],
    ids=["afresh after a resume", "afresh with fewer rows", "with fewer rows", "afresh over results"],
)
def test_no_attempt_is_sent_twice_whatever_rows_the_runs_of_a_directory_have(concurrency, lives):
    oracle_of(*lives, concurrency=concurrency, latency_ms=20, control_ms=5)


@pytest.mark.parametrize("how", ["fails", "unwritten"])
@pytest.mark.parametrize("standing", [False, True])
def test_a_row_that_was_answered_without_a_result_is_played_again_by_the_next_life(how, standing):
    oracle = oracle_of(Life(faults=(Fault("run", 1, how),)), rows=2, standing=standing)
    assert sorted(len(sends) for sends in oracle.sends.of.values()) == [1, 2]


def test_a_run_that_is_stopped_while_failed_rows_are_tried_again_says_that_it_is_not_done():
    failed = Life(faults=(Fault("run", 1, "fails"),))
    before_anything = Life(signals=(Signal(Moment(0), "TERM"),))
    lived = told(Story(1, lives=(failed, before_anything, STOPPED), latency_ms=1, control_ms=1))
    endings = [(living.report.exit_code, living.report.failed) for living in lived.lives[:3]]
    assert endings == [(3, 1), (75, 1), (75, 1)]
    assert lived.oracle.restored, "the stop kept where the row was"


def test_rows_that_nobody_can_capture_start_again_beside_rows_that_go_on():
    oracle = oracle_of(STOPPED, rows=6, mixed=True)
    continued = {rollout_id for (rollout_id, _), state in oracle.restored.items() if state is not None}
    holds(6, continued, "no row that can be captured is continued")
    again = {rollout_id for rollout_id, sends in oracle.sends.of.items() if len(sends) > 1} - continued
    assert again == {"1-0", "3-0", "5-0"}


@pytest.mark.parametrize("how", ["nonsense", "another's"])
def test_no_answer_to_a_control_call_that_is_a_lie_tears_anything(how):
    asked = (Signal(Moment(700), "USR1"), Signal(Moment(1500), "TERM"))
    published = 0
    for nth in range(1, 60, 5):
        lied_to = Life(signals=asked, faults=(Fault("control", nth, how),))
        published += oracle_of(lied_to).counts["published"]
    assert published


@pytest.mark.parametrize("text", ONCE_BROKEN.values(), ids=ONCE_BROKEN)
def test_what_once_broke_a_run_breaks_none(text):
    told(told_by(text))
