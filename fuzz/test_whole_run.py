"""Whatever happens to a run and its machine, every row ends with one result, played once from end to end."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings

from fuzz.simulation.living import Living, World, live, simulated
from fuzz.simulation.network import Fault
from fuzz.simulation.story import UNDISTURBED, Life, Moment, Signal, Story, stories

MEMORY = Path("/dev/shm")  # where there is one, the disk is none


@pytest.fixture(autouse=True)
def _no_limit_of_attempts(monkeypatch):
    monkeypatch.setenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", "100")


def told(story):
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        return live(root, story)
    finally:
        shutil.rmtree(root)


@settings(max_examples=max(40, settings.default.max_examples // 5), deadline=None)
@given(stories)
def test_every_row_ends_with_one_result_whatever_happens(story):
    told(story)


def test_a_stop_a_checkpoint_a_death_and_a_full_stop():
    stopped = Life(signals=(Signal(Moment(1500), "TERM"),))
    killed = Life(signals=(Signal(Moment(700), "USR1"),), death=Moment(2000))
    cut_short = Life(death=Moment(15, "syncs"))
    oracle = told(Story(3, 256, 2.0, 1, 1, (stopped, killed, cut_short)))
    assert oracle.restored, "some rows have to go on from where they were"


@pytest.mark.parametrize("nth", range(1, 50, 3))
def test_a_stop_at_any_answer_between_servers_tears_nothing(nth):
    stopped = Life(signals=(Signal(Moment(nth, "answers"), "TERM"),))
    oracle = told(Story(3, 256, 2.0, 500, 5, (stopped,)))
    assert oracle.counts["published"], "the stop has its checkpoint"


@pytest.mark.parametrize("what", ["TERM", "INT"])
@pytest.mark.parametrize("at", [0, 1, 3, 10, 30])
def test_a_stop_before_anything_is_sent_loses_nothing(what, at):
    """From before anybody listens on, through the bringing up of the servers and the restoring."""
    stopped = Life(signals=(Signal(Moment(1500), "TERM"),))
    at_once = Life(signals=(Signal(Moment(at), what), Signal(Moment(at + 5), "TERM")))
    oracle = told(Story(3, 256, 2.0, 20, 5, (at_once, stopped, at_once, at_once)))
    assert oracle.restored, "rows go on from the one checkpoint that there is"


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_stop_at_any_of_the_first_syncs_keeps_nobody_out(nth):
    stopped = Life(signals=(Signal(Moment(nth, "syncs"), "TERM"),))
    told(Story(2, 256, 2.0, 500, 5, (stopped, stopped)))


def test_a_tool_whose_answer_was_lost_at_the_cut_is_not_called_again():
    stopped = Life(
        signals=(Signal(Moment(6, "answers"), "TERM"),), faults=frozenset({Fault("peer", 6, "reply lost")})
    )
    told(Story(1, 1, 2.0, 20, 5, (stopped,)))


STOPPED = Life(signals=(Signal(Moment(1500), "TERM"),))


def none_started_anew(oracle):
    """Whether every later attempt went on from the checkpoint."""
    return all(
        request.header(b"x-continued") == b"1"
        for sends in oracle.sent.values()
        for attempt, request in sends
        if attempt
    )


@pytest.mark.parametrize("nth", range(1, 13))
def test_a_restart_that_dies_at_any_sync_twice_continues_every_row(nth):
    dead = Life(death=Moment(nth, "syncs"))
    oracle = told(Story(3, 256, 2.0, 1, 1, (STOPPED, dead, dead)))
    assert oracle.counts["continued"] >= 3
    assert none_started_anew(oracle)


@pytest.mark.parametrize("nth", range(1, 24, 2))
def test_a_restart_that_dies_at_any_word_of_a_participant_twice_continues_every_row(nth):
    lives = (STOPPED, *(Life(death=Moment(which, "controls")) for which in (nth, nth + 1)))
    oracle = told(Story(3, 256, 2.0, 1, 1, lives))
    assert oracle.counts["life ended dead"] == 2
    assert oracle.counts["continued"] >= 3
    assert none_started_anew(oracle)


def test_rows_that_were_restored_and_not_sent_yet_are_in_the_next_checkpoint():
    narrow = Life(signals=(Signal(Moment(300), "USR1"),), death=Moment(900), concurrency=1)
    oracle = told(Story(4, 256, 2.0, 1, 1, (STOPPED, narrow, narrow)))
    assert oracle.counts["published"] == 3
    assert oracle.counts["continued"] >= 4
    assert none_started_anew(oracle)


@pytest.mark.parametrize("harm", ["LATEST", "newest", "lock"])
def test_a_damaged_directory_costs_a_restart_no_more_than_the_newest_checkpoint(harm):
    twice = Life(signals=(Signal(Moment(800), "USR1"), Signal(Moment(1600), "TERM")))
    oracle = told(Story(3, 256, 2.0, 1, 1, (twice, Life(death=Moment(12, "controls"), harm=harm), Life())))
    assert oracle.counts["published"] == 2
    assert oracle.counts["continued"] >= 3
    assert none_started_anew(oracle)


def test_a_disk_that_is_full_at_the_very_end_takes_no_row_and_no_report_away(tmp_path):
    class Full(Living):
        drafts = 0

        def synced(self, descriptor):
            is_log = Path(f"/proc/self/fd/{descriptor}").readlink().name == ".dispatched.jsonl.tmp"
            self.drafts += is_log
            if is_log and self.drafts > 1:  # the first is that of the start
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    world = World(tmp_path, Story(2, 256, 10.0, 1, 1))
    living = Full(world, UNDISTURBED)
    world.oracle.begin(living.servers, UNDISTURBED)
    with simulated(living):
        report = trio.run(living.live, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (report.exit_code, report.succeeded) == (0, 2)
    assert any("every row is written" in note for note in report.notes)


KILLED = Life(death=Moment(1500))
FRESH = Life(death=Moment(1500), fresh=True)


@pytest.mark.parametrize(
    ("concurrency", "lives"),
    [
        (1, (Life(death=Moment(4000)), KILLED, FRESH)),
        (256, (KILLED, Life(fresh=True, limit=1), FRESH)),
        (256, (KILLED, Life(limit=1), KILLED)),
        (1, (Life(fresh=True), Life(fresh=True, limit=1, death=Moment(3000)), FRESH)),
    ],
    ids=["afresh after a resume", "afresh with fewer rows", "with fewer rows", "afresh over results"],
)
def test_no_attempt_is_sent_twice_whatever_rows_the_runs_of_a_directory_have(concurrency, lives):
    told(Story(3, concurrency, 2.0, 20, 5, lives))


@pytest.mark.parametrize("how", ["fails", "unwritten"])
def test_a_row_that_was_answered_without_a_result_is_played_again_by_the_next_life(how):
    oracle = told(Story(2, 256, 2.0, 20, 5, (Life(faults=frozenset({Fault("run", 1, how)})),)))
    assert sorted(len(sends) for sends in oracle.sent.values()) == [1, 2]


def test_rows_that_nobody_can_capture_start_again_beside_rows_that_go_on():
    stopped = Life(signals=(Signal(Moment(1500), "TERM"),))
    oracle = told(Story(6, 256, 2.0, 1, 1, (stopped,), mixed=True))
    continued = {rollout_id for (rollout_id, _), state in oracle.restored.items() if state is not None}
    assert continued
    again = {rollout_id for rollout_id, sends in oracle.sent.items() if len(sends) > 1} - continued
    assert again == {"1-0", "3-0", "5-0"}


@pytest.mark.parametrize("how", ["nonsense", "another's"])
def test_no_answer_to_a_control_call_that_is_a_lie_tears_anything(how):
    asked = (Signal(Moment(700), "USR1"), Signal(Moment(1500), "TERM"))
    published = 0
    for nth in range(1, 60, 5):
        lied_to = Life(signals=asked, faults=frozenset({Fault("control", nth, how)}))
        published += told(Story(3, 256, 2.0, 1, 1, (lied_to,))).counts["published"]
    assert published
