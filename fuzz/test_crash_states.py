"""The power may go at any file operation and take what is not synced: the next run goes on from the rest."""

import random

from fuzz.commands import Options
from fuzz.disk.calls import watched
from fuzz.disk.crashstates import Cutting, explore
from fuzz.disk.cuts import Cuts
from fuzz.disk.storage import Disk, Recorder
from fuzz.invariants import holds
from fuzz.simulation.story import UNDISTURBED, Death, Fault, Life, Moment, Signal, Story
from fuzz.tally import Tally
from triocollect.durable import AppendFile


def cut_everywhere(story, *, lives_on=0, share=1.0):
    tally = Tally("crashstates", 0)
    Cutting(0, tally, lives_on, share).everywhere(story)
    assert not tally.violations, "\n\n".join(tally.violations)
    return tally.account()


def outcomes(account):
    return {outcome for kind in account.kinds.values() for outcome in kind.outcomes}


ASKED = tuple(Signal(Moment(at), "USR1") for at in (300, 900, 1500))
STOPPED = Life(signals=(*ASKED, Signal(Moment(2100), "TERM")))
FAILS = Story(2, 1, 10.0, 0, 0, (Life(faults=(Fault("run", 1, "fails"),)),))
KILLED = Life(signals=ASKED[:1], death=Death(Moment(1200)))


def test_checkpoints_a_prune_a_stop_and_a_resume_may_be_cut_anywhere():
    account = cut_everywhere(Story(2, 256, 1.0, 20, 5, (STOPPED, UNDISTURBED)), lives_on=1, share=0.3)
    assert account.explored >= 500
    assert outcomes(account) == {"goes on from a checkpoint", "goes on from input", "nothing left"}
    assert {len(kind.digests) > 8 * 20 for kind in account.kinds.values()} == {True}


def test_a_kill_a_restart_and_a_fresh_run_may_be_cut_anywhere():
    """The kill alone takes nothing; the power goes later, before what the killed run wrote is on disk."""
    fresh = Life(signals=ASKED[1:2], fresh=True, death=Death(Moment(1500)))
    account = cut_everywhere(Story(2, 1, 4.0, 20, 5, (KILLED, KILLED, fresh, UNDISTURBED)), share=0.15)
    assert account.explored >= 500


def test_a_failure_that_was_acknowledged_outlives_a_cut():
    """It is the first line of a new file, whose name has to be on disk before."""
    cut_everywhere(FAILS)


def test_what_was_answered_since_it_was_restored_does_not_go_on_from_there_again():
    """The answer asked that nothing be written, so that the dispatch log alone tells of it."""
    stopped, unwritten = (
        Life(signals=(Signal(Moment(1110), "TERM"),)),
        Life(faults=(Fault("run", 1, "unwritten"),)),
    )
    account = cut_everywhere(Story(1, 1, 2.0, 20, 5, (stopped, unwritten)), share=0.3)
    assert {"goes on from a checkpoint", "goes on from input"} <= outcomes(account)


def test_a_replay_of_a_story_that_no_seed_draws_has_the_same_states():
    tally = Tally("crashstates", 0)
    explore(Options(1.0, 0, 1, replay=f"0:{FAILS.text}"), tally)
    assert tally.explored >= cut_everywhere(FAILS).explored > 50


def test_what_a_killed_run_wrote_and_nobody_synced_is_durable_before_a_checkpoint_leaves_it_out():
    cut_everywhere(
        Story(2, 1, 4.0, 20, 5, (Life(death=Death(Moment(2400))), Life(signals=ASKED[1:2]))), share=0.2
    )


def test_a_log_with_a_clean_end_leaves_out_no_row_whose_result_may_still_be_lost():
    """The output tells what it leaves out: a result of the killed run before is on disk before the log is."""
    cut_everywhere(Story(2, 1, 200.0, 20, 5, (Life(death=Death(Moment(500))), UNDISTURBED)))


def test_a_line_that_was_synced_is_there_also_where_it_is_the_first_of_a_new_file(tmp_path):
    recorder = Recorder(tmp_path)
    with watched(tmp_path, recorder):
        file = AppendFile(tmp_path / "lines")
        file.append(b"one\n")
        file.sync()
        file.close()
    disk = Disk(recorder.base, recorder.everything)
    for operation, _ in recorder.log:
        disk.do(operation)
    left = [state.files.get("lines") for state in Cuts(random.Random(1)).states(disk)]
    holds(15, set(left) == {b"one\n"}, f"after the sync of a first line a cut leaves {left}")
