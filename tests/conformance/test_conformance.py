"""Whoever keeps the promises of a participant is told so; of whoever breaks one, it is named."""

from functools import partial

import pytest

from tests.conformance import broken_calls, broken_work
from tests.conformance.participants import TOKEN, whole
from triocollect.conformance import PROMISES, Terms, examine_in_process
from triocollect.conformance.findings import Examined


@pytest.fixture
def terms(tmp_path):
    return Terms(token=TOKEN, directory=tmp_path, seconds=0.0, seed=1)


KINDS = ["environment", "model", "agent", "resources"]
MODES = ["exported", "stateless", "restart_only"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
async def test_a_participant_of_any_kind_and_mode_that_keeps_its_promises(
    kind, mode, tmp_path, terms, autojump_clock
):
    examined = await examine_in_process(partial(whole, tmp_path, kind, mode), terms)
    assert (examined.broken, examined.left) == ((), ""), examined.text()
    assert all(one.verdict == "kept" for one in examined.findings), examined.text()
    assert (examined.kind, examined.mode, examined.instance) == (kind, mode, "desk")
    assert examined.calls > 200
    assert not list(tmp_path.iterdir()), "it cleans up"


BROKEN = {
    1: [broken_calls.TakesAnyToken, broken_calls.TellsItsPlaceToAnybody],
    2: [broken_calls.IsTwoProcesses],
    3: [broken_calls.ChokesOnNonsense, broken_calls.RefusesWhatItDoesNotKnow],
    4: [broken_calls.WritesOutside],
    5: [broken_calls.TellsNoEpoch],
    6: [broken_calls.TakesALowerEpoch],
    7: [broken_calls.TakesAnotherRun],
    8: [broken_calls.TellsNoLease],
    9: [broken_calls.KeepsOpenWhatAnotherEpochLeft],
    10: [broken_calls.CommitsWithoutAPrepare],
    11: [broken_calls.TellsAnotherDigest, broken_calls.AnswersACommitBeforeItIsOnDisk],
    12: [broken_calls.CommitsAnewEachTime],
    13: [broken_calls.ResumesOnce],
    14: [broken_calls.PreparesWhatIsOver],
    15: [broken_calls.PassesOverAResumeThatItDoesNotKnow],
    16: [broken_calls.FinishesTheOlderFirst],
    17: [broken_calls.GivesUpWithTheCall],
    18: [broken_calls.RetiresInsideACheckpoint],
    19: [broken_calls.WritesAfterTheResume],
    20: [broken_calls.HasALeaseThatNeverEnds],
    21: [broken_calls.RetiresNobody],
    22: [broken_calls.OpensAfterARestore],
    23: [broken_calls.InstallsWhatIsDamaged],
    24: [broken_work.AdmitsWithoutAskingAgain],
    25: [
        broken_work.NeverOpensItsDoorAgain,
        broken_work.OpensWithoutWakingWhoWaits,
        broken_work.TakesNoRunAgain,
    ],
    26: [broken_work.RunsWhileClosed, broken_work.LetsWorkInWhileClosed],
    27: [broken_work.WorksForNobody],
    28: [broken_work.OpensOnlyWhenCalled],
    29: [broken_work.WorksForALowerEpoch],
    30: [broken_work.StaysAfterTheGoodbye],
    31: [broken_work.DoesNotSayWhatIsRetired],
    32: [broken_work.NeverForgets],
    33: [broken_work.RestoresAlthoughItHasServed],
    34: [broken_work.PlaysAnewWhatGoesOn],
    35: [broken_work.ExportsNothingOfItsScope],
    36: [broken_work.ExportsNothingUnderWay],
    37: [broken_work.TellsNoRestarts],
    38: [broken_work.SaysOneThingTwice],
    39: [broken_work.ServesWhatARestoreReplaced],
    40: [broken_work.KeepsWhatNobodyClaims],
    41: [broken_work.GoesOnFromNothing],
    42: [broken_calls.WritesBesideItsFolder, broken_calls.RemovesOlderCheckpoints],
    43: [broken_work.PlaysAnAttemptTwiceAtOnce],
    44: [broken_calls.GivesUpAtAnyGreeting],
}


@pytest.mark.parametrize(
    ("number", "make"), [(number, make) for number, makes in BROKEN.items() for make in makes]
)
async def test_of_a_broken_participant_exactly_its_promise_is_named(
    number, make, tmp_path, terms, autojump_clock
):
    examined = await examine_in_process(partial(make, tmp_path), terms)
    assert examined.broken == (number,), examined.text()
    [broken] = [one for one in examined.findings if one.verdict == "BROKEN"]
    assert all((broken.asked, broken.answered, broken.expected, broken.look)), broken


async def test_an_environment_whose_rows_last_is_not_taken_for_a_broken_one(tmp_path, terms, autojump_clock):
    lasting = partial(whole, tmp_path, "environment", takes_s=3600)
    examined = await examine_in_process(lasting, terms)
    assert examined.broken == (), examined.text()
    untried = [one.why for one in examined.findings if one.verdict == "untried"]
    assert "give a shorter row" in untried[0]
    assert set(untried[1:]) == {"no work that it is asked for succeeds, as is told above"}


async def test_what_needs_more_than_a_url_says_what_it_needs(tmp_path, autojump_clock):
    app = whole(tmp_path)
    examined = await examine_in_process(lambda: app, Terms(token=TOKEN, seconds=0.0, seed=1))
    assert examined.broken == (), examined.text()
    untried = {one.number: one.why for one in examined.findings if one.verdict == "untried"}
    assert untried.keys() == {11, 19, 39, 40, 42}
    assert "--checkpoint-dir" in untried[11]
    assert "the same again" in untried[39]
    assert "which nothing needs" in examined.left


def test_every_promise_is_broken_by_somebody():
    assert sorted(BROKEN) == [*(promise.number for promise in PROMISES), len(PROMISES) + 1]


def test_promises_are_numbered_in_the_order_in_which_they_are_tried():
    assert [promise.number for promise in PROMISES] == [*range(1, len(PROMISES) + 1)]
    assert all(number < promise.number for promise in PROMISES for number in promise.builds_on)
    assert TOKEN not in repr(Terms(token=TOKEN))


@pytest.mark.parametrize(
    ("kind", "can_cut", "says"),
    [("model", True, "it says that it cuts"), ("model", False, "it does not cut"), ("agent", False, None)],
)
def test_of_a_model_server_it_is_said_what_becomes_of_calls_in_generation(kind, can_cut, says):
    examined = Examined(
        url="http://desk", kind=kind, instance="desk", mode="exported", findings=(), can_cut=can_cut
    )
    told = examined.text().splitlines()[-1]
    assert says in told if says else "cut" not in told
