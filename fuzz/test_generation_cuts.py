"""Whatever cuts a run in the middle of an answer, and however well: no token that was kept is made again."""

import pytest

from fuzz.invariants import holds
from fuzz.simulation.explore import told
from fuzz.simulation.story import Death, Fall, Fault, Life, Moment, Signal, Story
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.model.filed import FiledCut, FiledCuts

WELL, LATER, SLOWLY, LIES = 5, 2, 3, 4  # dice of stories whose worker cuts so
LONG_S = 40.0  # less than the shortest freeze that nobody ends


def lived(*lives, rows=2, dice=WELL, control_ms=1):
    """How a story went, where answers of four tokens take two seconds."""
    return told(Story(rows, 256, 2.0, 1, control_ms, lives, changes=1, dice=dice))


def generated_in(*lives, **more):
    """What the oracle has seen of calls."""
    return lived(*lives, **more).oracle.generated


def stopped(at):
    return Life(signals=(Signal(Moment(at), "TERM"),))


@pytest.mark.parametrize("at", range(1100, 1600, 150))
def test_a_stop_before_an_answer_has_begun_keeps_nothing_and_loses_nothing(at):
    generated_in(stopped(at))


@pytest.mark.parametrize("dice", [WELL, LATER])
@pytest.mark.parametrize("at", range(1650, 2950, 150))
def test_an_answer_that_a_stop_cuts_anywhere_goes_on_there(at, dice):
    """Also where it takes a while until what is kept of it is durable."""
    generated = generated_in(stopped(at), dice=dice)
    holds(11, generated.cuts == 2, f"{generated.cuts} calls of 2 were kept")
    holds(11, generated.went_on == 2, f"{generated.went_on} calls of 2 went on")


@pytest.mark.parametrize("at", [1900, 2100])
def test_nothing_is_generated_between_a_cut_and_the_end_of_the_stop_that_took_it(at):
    """Which takes a while where control calls are slow."""
    generated = generated_in(stopped(at), control_ms=50)
    holds(11, generated.went_on == 2, f"{generated.went_on} calls of 2 went on")


@pytest.mark.parametrize("pause", [200, 700, 1200])
def test_an_answer_that_is_cut_again_and_again_is_made_once(pause):
    """Also where the restarted run is told to stop before its calls have gone far."""
    generated = generated_in(stopped(1700), stopped(pause), stopped(pause))
    holds(11, generated.went_on >= 2, f"{generated.went_on} calls went on")


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_cut_is_kept_by_a_stop_that_comes_before_its_call_is_made_or_has_arrived(nth):
    """One of the requests on the way from the environment to the worker takes long."""
    on_its_way = Life(signals=(Signal(Moment(300), "TERM"),), faults=(Fault("peer", nth, "late"),))
    generated = generated_in(stopped(1700), on_its_way, rows=1)
    holds(11, generated.went_on >= 1, "the call was made again from its start")


@pytest.mark.parametrize("at", [1700, 2300, 2900])
@pytest.mark.parametrize("dice", [SLOWLY, LIES, LIES + 5, LIES + 10])
def test_a_worker_that_is_slow_or_lies_costs_tokens_and_nothing_else(at, dice):
    generated_in(stopped(at), stopped(at), dice=dice, rows=3)


@pytest.mark.parametrize("dice", [WELL, SLOWLY, LIES])
def test_a_checkpoint_that_the_run_survives_lets_every_answer_go_on(dice):
    """At once: nothing that was frozen stays so for as long as it might."""
    asked = Life(signals=tuple(Signal(Moment(at), "USR1") for at in (1700, 2100, 2500)))
    story = lived(asked, dice=dice)
    lasted = story.lives[0].ended - story.lives[0].began
    holds(8, lasted < LONG_S, f"a run of 3 s and a few checkpoints took {lasted:.0f} s")
    assert story.oracle.counts["published"] >= 2


@pytest.mark.parametrize("server", ["policy_model", "inference"])
@pytest.mark.parametrize("at", [1750, 2300])
def test_a_server_that_falls_beside_a_cut_harms_no_row(server, at):
    asked = Signal(Moment(at), "USR1")
    for later in (0, 1, 300):
        generated_in(Life(signals=(asked,), falls=(Fall(Moment(at + later), server),)), stopped(2000))


@pytest.mark.parametrize("nth", range(1, 14, 4))
@pytest.mark.parametrize("how", ["reply lost", "late", "hangs"])
def test_a_receipt_that_is_lost_or_late_harms_no_row(nth, how):
    """The freeze and the thaw are among the calls between servers."""
    fault = Fault("peer", nth + 8, how)
    generated_in(Life(signals=(Signal(Moment(1700), "USR1"),), faults=(fault,)), stopped(2100))


@pytest.mark.parametrize("nth", range(20, 60, 5))
def test_a_death_at_any_change_of_a_file_loses_no_pack_that_is_named(nth):

    cut = Life(
        signals=(Signal(Moment(1700), "USR1"), Signal(Moment(2200), "USR1"), Signal(Moment(2600), "USR1")),
        death=Death(Moment(nth, "files")),
    )
    generated_in(cut, stopped(1700))


def test_a_cut_is_gone_on_from_by_the_call_that_it_is_of_and_once():
    """An agent of ours asks the same again after a restore; somebody else's may ask anything."""
    filed, ours = FiledCuts(), EpisodeId("0-0", 1)
    cut = FiledCut(request_sha256="asked", parent="before", key="pack:0", tokens=3)
    filed.file({ours: cut})
    for episode in (ours, EpisodeId("0-0", 2), EpisodeId("1-0", 1)):
        for parent in ("before", "another", None):
            for asked in ("asked", "else"):
                if (episode, parent, asked) != (ours, "before", "asked"):
                    taken = filed.take(episode, parent, asked)
                    holds(13, taken is None, f"{asked} after {parent} of {episode} goes on from {taken}")
    holds(11, filed.take(ours, "before", "asked") == cut, "its own call does not go on from it")
    holds(11, filed.take(ours, "before", "asked") is None, "another call goes on from it after its own")
