"""Whoever keeps the promises of a participant is told so; of whoever breaks one, it is named."""

from functools import partial

import pytest

from tests.conformance import participants
from tests.conformance.participants import TOKEN, whole
from triocollect.conformance import Terms, examine_in_process


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
    participants.TakesAnyToken: 1,
    participants.TakesALowerEpoch: 6,
    participants.TellsAnotherDigest: 11,
    participants.AnswersACommitBeforeItIsOnDisk: 11,
    participants.RetiresInsideACheckpoint: 18,
    participants.WritesAfterTheResume: 19,
    participants.HasALeaseThatNeverEnds: 20,
    participants.NeverOpensItsDoorAgain: 24,
    participants.OpensWithoutWakingWhoWaits: 24,
    participants.RunsWhileClosed: 25,
    participants.RestoresAlthoughItHasServed: 31,
    participants.GivesUpAtAnyGreeting: 37,
}


def name_of(value):
    return getattr(value, "__name__", None) or (None if isinstance(value, int) else "RunsWhileClosed")


@pytest.mark.parametrize(("made", "number"), BROKEN.items(), ids=name_of)
async def test_of_a_broken_participant_exactly_its_promise_is_named(
    made, number, tmp_path, terms, autojump_clock
):
    examined = await examine_in_process(partial(made, tmp_path), terms)
    assert examined.broken == (number,), examined.text()
    [broken] = [one for one in examined.findings if one.verdict == "BROKEN"]
    assert all((broken.asked, broken.answered, broken.expected, broken.look)), broken
