"""Stories in which one thing goes wrong, at each moment of a checkpoint, a restore or a row where it can."""

import os
import signal
import subprocess
import sys

import pytest

from fuzz.invariants import holds
from fuzz.simulation.named import CUT, SLOW_CONTROL, STOPPED, lives_of, struck, words_of
from fuzz.simulation.story import SERVERS, Break, Death, Fall, Fault, Life, Moment, Signal, Trouble

SEED_HANGS = Fault("peer", 3, "hangs")  # no boundary is reached before its row is given up


def test_a_resume_that_is_lost_is_asked_for_again_long_before_the_lease_ends():
    words = words_of("resume", Life(signals=(CUT,)), tokens_per_s=2.0)
    lost = 0
    for nth in words:
        life = Life(signals=(CUT,), faults=(Fault("control", nth, "hangs"),))
        lived = lives_of(life, tokens_per_s=2.0)
        if any(place.endswith("resume") for place in struck(lived, "hangs")):
            lost += 1
            lasted = lived.lives[0].ended - lived.lives[0].began
            holds(8, lasted < 45, f"somebody was closed for long after control call {nth}: {lasted:.0f} s")
    assert lost == len(words)


@pytest.mark.parametrize("seen", ["by both", "by servers"])
def test_a_row_whose_connection_breaks_in_a_checkpoint_is_left_out_or_whole(seen):
    words = words_of("prepare", Life(signals=(CUT,)), standing=True, **SLOW_CONTROL)[:-3]
    broke = 0
    for nth in words:
        life = Life(signals=(CUT,), breaks=(Break(Moment(nth, "controls"), seen),))
        lived = lives_of(life, standing=True, **SLOW_CONTROL)
        broke += len(struck(lived, f"a break seen {seen}"))
    assert broke == len(words)


def test_a_row_whose_connection_breaks_while_its_run_makes_all_durable_is_not_continued():
    """After all were asked whether the cut held; the disk is so slow that the run hears of it meanwhile."""
    more = {"tokens_per_s": 0.4, "control_ms": 0, "latency_ms": 20}
    slow = Life(signals=(CUT,), slow_ms=2000)
    controls = lives_of(slow, **more).lives[0].controls
    asked = max(nth for nth, place in enumerate(controls, 1) if place.endswith("status"))
    broken = Life(signals=(CUT,), slow_ms=2000, breaks=(Break(Moment(asked, "controls")),))
    lived = lives_of(broken, **more)
    assert lived.oracle.counts["published"]
    assert struck(lived, "a break seen by both")


def test_a_row_whose_answer_is_on_its_way_when_a_checkpoint_begins_is_not_in_it():
    last = lives_of(latency_ms=100, tokens_per_s=2.0).lives[0].passed["answers"]
    for nth in range(last - 5, last + 1):
        life = Life(signals=(Signal(Moment(nth, "answers"), "USR1"),))
        lives_of(life, latency_ms=100, control_ms=500, tokens_per_s=2.0)


def test_an_answer_that_was_sent_and_not_read_at_a_cut_is_known_once_after_it():
    for nth in range(3, 13):
        unread = Life(
            signals=(Signal(Moment(nth, "answers"), "TERM"),), faults=(Fault("peer", nth, "buffered"),)
        )
        again = Life(signals=(Signal(Moment(4, "answers"), "TERM"),))
        lives_of(unread, again, rows=1)


@pytest.mark.parametrize("newer", [None, "counter", "environment", "policy_model"])
@pytest.mark.parametrize(("cut", "at"), [((), 14), ((Signal(Moment(3, "answers"), "USR1"),), 26)])
def test_what_a_dead_run_has_sent_is_retired_by_the_next_one_at_all_servers_that_stand(cut, at, newer):
    """Whether a checkpoint was taken before it or none, and also where one of them is new."""
    dead = Life(signals=cut, death=Death(Moment(at, "answers"), "collector"), concurrency=1)
    falls = () if newer is None else (Fall(Moment(1, "controls"), newer),)
    lived = lives_of(dead, Life(falls=falls), tokens_per_s=2.0, standing=True)
    assert lived.oracle.counts["life ended dead"]


def test_a_row_that_brought_no_answer_waits_for_its_retire_however_long_that_takes():
    lost = Life(faults=(Fault("run", 1, "reply lost"),))
    for dice in (1, 2, 3):
        lived = lives_of(lost, rows=6, control_ms=3000, standing=True, changes=1, tokens_per_s=4.0, dice=dice)
        assert lived.lives[0].report.succeeded == 6  # so many rows allow one more send


@pytest.mark.parametrize("how", ["reply lost", "unnoticed"])
def test_a_row_that_is_given_up_without_an_answer_is_retired_before_the_run_is_over(how):
    lived = lives_of(Life(faults=(Fault("run", 1, how),)), changes=1, tokens_per_s=4.0, standing=True)
    assert lived.lives[0].report.failed == 1  # so few rows allow no more sends


def test_a_stop_whose_checkpoint_always_fails_is_over_within_its_grace():
    words = words_of("commit", STOPPED, tokens_per_s=2.0)
    no_more = tuple(Fault("control", nth, "gateway") for nth in range(words[0], words[0] + 600))
    lives_of(Life(signals=STOPPED.signals, faults=no_more), tokens_per_s=2.0)


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_that_falls_at_any_word_of_a_checkpoint_tears_none(server):
    words = words_of("prepare", Life(signals=(CUT,)), **SLOW_CONTROL)[::2]
    fell = 0
    for nth in words:
        life = Life(signals=(CUT,), falls=(Fall(Moment(nth, "controls"), server),))
        fell += len(struck(lives_of(life, **SLOW_CONTROL), f"death of {server}"))
    assert fell == len(words)


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_that_falls_before_a_checkpoint_is_missed_by_it(server):
    for nth in (3, 5, 7):
        life = Life(signals=(CUT,), falls=(Fall(Moment(nth, "answers"), server),))
        lives_of(life, **SLOW_CONTROL)


def test_a_request_that_arrives_long_after_it_was_given_up_is_played_by_nobody():
    stray = Life(faults=(Fault("run", 6, "stray"),))  # so many rows allow one more send
    assert struck(lives_of(stray, rows=6, tokens_per_s=2.0, standing=True), "stray")
    lived = lives_of(stray, rows=24, concurrency=5, changes=1, tokens_per_s=0.4, standing=True)
    overtaken = [
        len(sends) for sends in lived.oracle.sends.of.values() if any(one.request.overtaken for one in sends)
    ]
    assert overtaken == [2]


def test_a_request_that_comes_twice_is_played_once():
    life = Life(faults=(Fault("run", 1, "twice"),))
    assert struck(lives_of(life, tokens_per_s=0.5), "twice")


def test_what_was_restored_and_never_sent_can_be_restored_again_by_servers_that_stand():
    gone = Life(signals=(CUT,), death=Death(Moment(18, "answers")))
    for nth in words_of("restore", gone, Life(), standing=True, **SLOW_CONTROL)[::2]:
        dies = Life(death=Death(Moment(nth, "controls"), "collector"))
        lived = lives_of(gone, dies, standing=True, **SLOW_CONTROL)
        anew = [
            (rollout_id, one.attempt)
            for rollout_id, sends in lived.oracle.sends.of.items()
            for one in sends
            if one.attempt and not one.goes_on
        ]
        had_served = lived.lives[1].passed["answers"]
        holds(10, had_served or not anew, f"{anew} were kept, and began anew")


@pytest.mark.parametrize("server", ["environment", "agent", "policy_model", "counter"])
def test_a_restore_that_fails_leaves_attempts_that_nobody_uses_again(server):
    words = words_of("restore", STOPPED, Life(), **SLOW_CONTROL)[:-1:3]
    fell = 0
    for nth in words:
        fails = Life(falls=(Fall(Moment(nth, "controls"), server),), death=Death(Moment(nth + 6, "controls")))
        fell += len(struck(lives_of(STOPPED, fails, **SLOW_CONTROL), f"death of {server}"))
    assert fell == len(words)


def test_a_row_whose_environment_falls_after_a_restore_is_not_played_on_what_others_restored():
    """Right before its attempt is written down, when nobody can have heard of it."""
    begun = 0
    for nth in range(20, 30):
        falls = Life(falls=(Fall(Moment(nth, "files"), "environment"),))
        lived = lives_of(STOPPED, falls, rows=1, tokens_per_s=2.0)
        begun += struck(lived, "death of environment")[-1:] == [
            f"files {nth}: collector write dispatched.jsonl"
        ]
    assert begun


def test_a_restored_row_is_not_begun_anew_by_an_environment_that_fell_while_it_waited():
    """One row is played at a time. Who sends the next one has heard of nothing but a broken connection."""
    for nth in (1, 4, 7):
        falls = Life(falls=(Fall(Moment(nth, "answers"), "environment"),), concurrency=1)
        assert lives_of(STOPPED, falls, tokens_per_s=2.0).oracle.counts["not_restored"]


def test_a_restored_row_whose_server_is_busy_is_asked_for_again_where_it_stands():
    busy = Life(faults=tuple(Fault("run", nth, "busy") for nth in (1, 2, 3, 4)))
    lived = lives_of(STOPPED, busy, tokens_per_s=2.0)
    holds(10, lived.lives[1].report.failed == 0, "a row that was kept was given up")
    assert len(struck(lived, "busy")) == 4


def test_rows_that_wait_are_sent_after_a_checkpoint_that_failed():
    for nth in words_of("prepare", Life(signals=(CUT,)), concurrency=1, tokens_per_s=2.0)[:8]:
        failed = Life(signals=(CUT,), faults=(Fault("control", nth, "nonsense"),))
        assert lives_of(failed, concurrency=1, tokens_per_s=2.0).oracle.counts["not published"]


def test_a_row_that_gets_its_place_in_the_moment_of_a_checkpoint_is_not_sent_in_it():
    """It is asked for at the change of a file: the result of one of two rows before is written."""
    more = {"rows": 4, "concurrency": 2, "changes": 1, "tokens_per_s": None, "latency_ms": 20}
    near = 58
    for dice in range(6):
        for nth in sorted(range(30, 90), key=lambda nth: abs(nth - near)):
            life = Life(signals=(Signal(Moment(nth, "files"), "USR1"),))
            places = struck(lives_of(life, dice=dice, **more), "USR1")
            if places == [f"files {nth}: collector write out.jsonl"]:
                near = nth
                break
        else:
            pytest.fail("no result was written")


@pytest.mark.parametrize("of", ["ms", "answers", "controls"])
def test_a_second_collector_is_refused_while_one_is_at_work_also_with_its_own_output(of):
    for at in (5, 9) if of == "answers" else (12, 400) if of == "ms" else (10, 20):
        for dice in (1, 2):
            life = Life(signals=(Signal(Moment(at, of), "RIVAL"),))
            assert struck(lives_of(life, tokens_per_s=2.0, latency_ms=20, control_ms=5, dice=dice), "RIVAL")


def test_a_signal_that_comes_while_the_program_starts_or_ends_kills_it_not():
    """At the first import that is ours, and when the interpreter ends."""
    program = (
        "import atexit, os, runpy, signal, sys\n"
        "def shot(*numbers):\n"
        "    for number in numbers: os.kill(os.getpid(), number)\n"
        "def heard(event, args):\n"
        "    if event == 'import' and args[0] == 'triocollect.dispositions': shot(signal.SIGUSR1)\n"
        "sys.addaudithook(heard)\n"
        "atexit.register(shot, signal.SIGUSR1, signal.SIGTERM)\n"
        "sys.argv = ['triocollect', '--version']\n"
        "runpy.run_module('triocollect', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    killed = signal.Signals(-done.returncode).name if done.returncode < 0 else None
    holds(14, killed is None, f"{killed} killed it")
    assert (done.returncode, done.stdout.split()[0]) == (0, "triocollect"), done.stderr


@pytest.mark.parametrize(("asked_at", "latency_ms", "control_ms", "dice"), [(26, 50, 5, 1), (30, 200, 50, 8)])
def test_a_restored_row_that_meets_a_closed_server_waits_at_its_boundary_and_is_kept_there(
    asked_at, latency_ms, control_ms, dice
):
    """Its refusal comes when all have committed, and the row is restored again when LATEST moves."""
    asked = Life(concurrency=256, signals=(Signal(Moment(asked_at, "controls"), "USR1"),))
    ways = {"tokens_per_s": 2.0, "latency_ms": latency_ms, "control_ms": control_ms, "dice": dice}
    lived = lives_of(STOPPED, asked, Life(), **ways)
    holds(10, lived.lives[1].report.failed == 0, "a row that was kept was given up")
    assert lived.oracle.counts["published"] == 2


@pytest.mark.parametrize("server", ["agent", "policy_model", "counter"])
def test_a_restored_row_that_meets_a_closed_server_goes_on_no_more_where_a_part_of_it_is_gone(server):
    """It is on its way when a checkpoint asks everybody, and hears of its refusal after that."""
    ways = {"tokens_per_s": 2.0, "latency_ms": 200, "control_ms": 50, "dice": 1}
    opened = Moment(words_of("resume", STOPPED, Life(), **ways)[3], "controls")
    life = Life(signals=(Signal(opened, "USR1"),), falls=(Fall(opened, server),))
    lived = lives_of(STOPPED, life, **ways)
    assert struck(lived, f"death of {server}")
    assert lived.oracle.counts["checkpoint_open"]


def test_a_row_that_hangs_keeps_a_checkpoint_no_longer_than_its_deadline():
    life = Life(signals=(Signal(Moment(5, "answers"), "USR1"),), faults=(SEED_HANGS,))
    assert lives_of(life, tokens_per_s=None, changes=1).oracle.counts["not published"]


@pytest.mark.parametrize("server", ["agent", "policy_model", "counter"])
def test_a_restored_row_that_waits_goes_on_no_more_where_it_is_heard_that_a_part_of_it_is_gone(server):
    """One row is played at a time; a checkpoint asks everybody while the other one waits."""
    fell = 0
    for nth in (2, 5):
        falls = Fall(Moment(nth, "answers"), server)
        life = Life(falls=(falls,), signals=(Signal(Moment(nth + 1, "answers"), "USR1"),), concurrency=1)
        fell += len(struck(lives_of(STOPPED, life, tokens_per_s=2.0), "USR1"))
    assert fell == 2


def test_a_second_ctrl_c_waits_for_no_checkpoint():
    twice = (Signal(Moment(5, "answers"), "INT"), Signal(Moment(6000), "INT"))
    lived = lives_of(Life(signals=twice, faults=(SEED_HANGS,)), tokens_per_s=None, changes=1).lives[0]
    lasted = lived.ended - lived.began
    holds(14, lasted < 12, f"the run went on for {lasted - 6:.0f} s after the second Ctrl-C")


def test_a_run_that_is_told_to_stop_sends_nothing_any_more_also_while_it_restores():
    lives_of(STOPPED, concurrency=1, tokens_per_s=2.0)
    for nth in words_of("restore", STOPPED, Life(), **SLOW_CONTROL)[:6:2]:
        told = Life(signals=(Signal(Moment(nth, "controls"), "TERM"),))
        assert struck(lives_of(STOPPED, told, **SLOW_CONTROL), "TERM")


@pytest.mark.parametrize("how", ["fails", "unwritten"])
def test_a_failure_is_counted_where_a_rollout_was_answered_with_it_and_not_where_it_was_meant_to_be(how):
    failing = Life(faults=(Fault("run", 1, how),))
    dead = Life(faults=failing.faults, death=Death(Moment(2, "answers")))
    assert struck(lives_of(failing), how)
    assert not struck(lives_of(dead), how)


def test_a_machine_that_slept_amid_a_write_that_failed_keeps_no_row_unretired():
    """A model server took the sleep for the time of the write, and left its disk alone for hours after it."""
    more = {"rows": 1, "changes": 1, "tokens_per_s": None, "latency_ms": 500, "link_ms": 100}
    crew = {"environment": 3, "agent": 3, "counter": 2}
    for nth in range(34, 40):
        sleeps = Life(disk=(Trouble(nth + 5, 1000, "EIO"),), leap=Moment(nth, "files"))
        lived = lives_of(sleeps, workers=crew, mixed=True, standing=True, dice=38159, **more)
        assert struck(lived, "the machine slept")
